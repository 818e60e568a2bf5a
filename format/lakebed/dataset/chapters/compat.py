"""A dataset's facade: what 3.x datasets say of the vendor's account and services, which nothing here needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lakebed import config
from lakebed.dataset.base import DatasetBase
from lakebed.errors import RenameError


class CompatMethods(DatasetBase):
    """Attributes and calls of the 3.x API that mean something only to its vendor's service."""

    client = None
    token: str | None = None
    org_id: str | None = None
    verbose = True
    public = False

    @property
    def is_optimized(self) -> bool:
        """Whether this is a saved view whose samples were copied."""
        view = self._handle.view
        return view is not None and not view.entry.is_virtual

    @property
    def username(self) -> str:
        """Name that commits are signed with."""
        return config.author()

    def set_token(self, new_token: str) -> None:
        """Accept a token of the vendor's service, which nothing here asks for.

        Parameters
        ----------
        new_token
            Ignored.
        """

    def rename(self, new_name: Any = None, *, columns: Any = None) -> NoReturn:
        """Refuse: only the vendor's service gives datasets names.

        Parameters
        ----------
        new_name
            The name that it would get.
        columns
            What pandas renames, of which the error tells.

        Raises
        ------
        InvalidOperationError
            If this is a selection of a dataset's rows.
        RenameError
            Else.
        """
        self._check_changeable("rename")
        if isinstance(new_name, Mapping) or columns:
            raise RenameError(
                "ds.rename is of a dataset's name: ds.rename_columns({'age': 'years'}) shows columns by other names, "
                "and ds.rename_tensor('age', 'years') stores them"
            )
        raise RenameError(
            f"Rename is not available for non-managed datasets: a dataset's name is its path. Move its folder to "
            f"{str(new_name)!r}, or lakebed.copy it there"
        )

    def visualize(self, width: int | str | None = None, height: int | str | None = None) -> Any:
        """Open the viewer, on this machine, at this dataset or the rows that are selected; ``lakebed view`` does, too.

        It is a process of its own, which ends with this one and is used again by the next call. What was not published
        is published first; a dataset in memory is copied to a temporary folder.

        Parameters
        ----------
        width, height
            Of the frame in a notebook: pixels, or a text such as ``"90%"``.

        Returns
        -------
        In a notebook the frame, which shows itself; else the address, which was opened in the browser.

        Raises
        ------
        ModuleNotInstalledException
            If the packages of the extra ``view`` are missing.
        InvalidOperationError
            If the viewer does not start.
        """
        from lakebed.dataset.display.viewing import visualize

        index, whole = self._index, type(self)(self._handle)
        # Of the longest tensor, as the page has it.
        rows = None if index.is_trivial else index.rows(whole.max_len)  # type: ignore[attr-defined]
        return visualize(self._handle, {}, rows, width, height)
