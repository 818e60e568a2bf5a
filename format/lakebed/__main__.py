"""``python -m lakebed``: the command ``lakebed``, for interpreters whose scripts are not on PATH."""

from lakebed.cli import main

if __name__ == "__main__":
    main(prog_name="lakebed")
