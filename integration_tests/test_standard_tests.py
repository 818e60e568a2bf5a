"""`airbyte_cdk.test.standard_tests`, the suite that Airbyte runs on every connector."""

from __future__ import annotations

from pathlib import Path

from integration_tests.standard.runs import standard_tests


def test_airbytes_own_suite_passes(tmp_path: Path) -> None:
    """Two configurations, one of them wrong; what is skipped does not exist for destinations, or not for that one."""
    outcomes = standard_tests(tmp_path, "not image_tests")
    assert {name for name, outcome in outcomes.items() if outcome == "passed"} == {
        "test_check['config' Test Scenario]",
        "test_check['invalid_config' Test Scenario]",
        "test_config_matches_spec['config' Test Scenario]",
    }
    assert not [outcome for outcome in outcomes.values() if outcome.startswith("failed")]
