"""Queries answered in JavaScript, in node: the rows and values of Python's engine, or the word that they need it."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.viewer.bucket import Bucket, serving
from lakebed.errors import LakebedError
from lakebed.query.relations.relation import Stored
from lakebed.query.values.columns import rows as values_of
from unit_tests import effort
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.query import adapter
from unit_tests.lakebed.query.cases import cases, query_of
from unit_tests.lakebed.query.corpus import DATASETS
from unit_tests.lakebed.query.oracle import made, rows_of
from unit_tests.lakebed.query.test_oracle import FROM, KINDS

HERE = Path(__file__).parent
WEB = HERE.parents[1] / "format" / "lakebed" / "viewer" / "web"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (WEB / "node_modules").is_dir(),
    reason="no node here: make lint installs it",
)
