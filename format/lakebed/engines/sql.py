"""SQL of DuckDB over datasets: ``lake('ADDRESS')`` in FROM becomes a table of which DuckDB reads what it needs."""

from __future__ import annotations

from lakebed.errors import InvalidInputError
from lakebed.reading.columns.frames import quoted


def tables_of(text: str) -> tuple[str, list[str], list[str]]:
    """Find the datasets and other names in a statement.

    Returns
    -------
    The statement, with each ``lake('ADDRESS')`` replaced by the address as a quoted name; the addresses; and all words
    of the statement, among them the names of tables.

    Raises
    ------
    InvalidInputError
        If ``lake`` is called with anything but one address in single quotes.
    """
    import duckdb

    data = text.encode()  # DuckDB counts positions in bytes
    tokens = duckdb.tokenize(text)
    ends = [start for start, _ in tokens[1:]] + [len(data)]
    words = [
        (start, data[start:end].decode().strip())
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind != duckdb.token_type.comment
    ]
    parts: list[str] = []
    addresses: list[str] = []
    done = 0
    for at, (start, word) in enumerate(words):
        if word.lower() == "lake" and words[at + 1 : at + 2] and words[at + 1][1] == "(":
            given = words[at + 2 : at + 4]
            addresses.append(_address([word for _, word in given]))
            parts += [data[done:start].decode(), quoted(addresses[-1])]
            done = given[1][0] + 1
    used = {word[1:-1].replace('""', '"') if word[:1] == '"' else word for _, word in words}
    return "".join([*parts, data[done:].decode()]), addresses, sorted(used)


def _address(words: list[str]) -> str:
    if len(words) < 2 or words[1] != ")" or not (words[0].startswith("'") and words[0].endswith("'")):
        raise InvalidInputError(
            "lake() takes one address in single quotes, such as lake('s3://bucket/photos@main')"
        )
    return words[0][1:-1].replace("''", "'")
