"""Methods of the 3.x API for the vendor's accounts and services; and the viewer, which runs locally."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from lakebed import config
from lakebed.dataset.base import DatasetBase
from lakebed.errors import RenameError


class CompatMethods(DatasetBase):
    """Attributes and calls of the 3.x API that need no service here."""

    client = None
    token: str | None = None
    org_id: str | None = None
    verbose = True
    public = False

    @property
    def is_optimized(self) -> bool:
        """True if this is a saved view with copied samples."""
        view = self._handle.view
        return view is not None and not view.entry.is_virtual

    @property
    def username(self) -> str:
        """Author of new commits."""
        return config.author()

    def set_token(self, new_token: str) -> None:
        """Accept a token of the vendor's service; it has no effect.

        Parameters
        ----------
        new_token
            Ignored.
        """

    def rename(self, new_name: Any = None, *, columns: Any = None) -> NoReturn:
        """Raise an error, because datasets have names only in the vendor's service.

        Parameters
        ----------
        new_name
            The new name.
        columns
            Argument of pandas; the error names the method for columns.

        Raises
        ------
        InvalidOperationError
            If this is a selection of rows.
        RenameError
            In all other cases.
        """
        self._check_changeable("rename")
        if isinstance(new_name, Mapping) or columns:
            raise RenameError(
                "ds.rename would rename the dataset itself: ds.rename_columns({'age': 'years'}) shows columns by other "
                "names, and ds.rename_tensor('age', 'years') stores them"
            )
        raise RenameError(
            f"Rename is not available for non-managed datasets: a dataset's name is its path. Move its folder to "
            f"{str(new_name)!r}, or lakebed.copy it there"
        )

    def visualize(self, width: int | str | None = None, height: int | str | None = None) -> Any:
        """Open the viewer on this machine, with this dataset or the selected rows, as ``lakebed view`` does.

        The viewer is a separate process, which ends with this one; later calls reuse it. Unpublished changes are
        published first; a dataset in memory is copied to a temporary folder.

        Parameters
        ----------
        width, height
            Size of the frame in a notebook: pixels, or a text such as ``"90%"``.

        Returns
        -------
        In a notebook, the frame; else the address that was opened in the browser.

        Raises
        ------
        ModuleNotInstalledException
            If the packages of the extra ``view`` are missing.
        InvalidOperationError
            If the viewer does not start.
        """
        from lakebed.dataset.display.viewing import visualize

        index, whole = self._index, type(self)(self._handle)
        # Row numbers on the page refer to the longest tensor.
        rows = None if index.is_trivial else index.rows(whole.max_len)  # type: ignore[attr-defined]
        return visualize(self._handle, {}, rows, width, height)
