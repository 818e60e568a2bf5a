"""Relations, which are named columns over rows; expressions over their columns; reading and computing of both."""
