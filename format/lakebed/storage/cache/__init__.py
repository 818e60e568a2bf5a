"""What was read of remote stores, kept on this machine's disk: files, how much room they take, and the storage on top.

Nothing here is ever the truth: whatever is missing, torn or damaged is read from the store again.
"""
