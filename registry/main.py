"""Start the connector, for runs outside of its image."""

from destination_deeplake.run import run

if __name__ == "__main__":
    run()
