"""The files that the platform hands over."""

from pathlib import Path

import pytest

from destination_deeplake.config import read_config
from destination_deeplake.failures import ConfigError


def test_a_file_that_is_no_json_is_refused_without_quoting_it(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"destination_path": "secret', encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(str(file))
    assert "not valid JSON (line 1" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_missing_or_holds_no_object_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_config(str(tmp_path / "none.json"))
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(ConfigError, match="must hold a JSON object, not an array"):
        read_config(str(tmp_path / "list.json"))
