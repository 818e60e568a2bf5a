"""``python -m destination_deeplake``: the command ``destination-deeplake``."""

from destination_deeplake.run import run

if __name__ == "__main__":
    run()
