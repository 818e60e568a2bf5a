"""The suite itself; `integration_tests.standard.runs` starts it in a process of its own.

It is not collected with the other tests: the CDK's hooks add options to pytest, and its tests are told apart by a
marker that this project does not have.
"""

from __future__ import annotations

from airbyte_cdk.test.standard_tests import DestinationTestSuiteBase

from destination_deeplake import DestinationDeeplake


class TestSuite(DestinationTestSuiteBase):
    """Airbyte's tests of any destination: what `acceptance-test-config.yml` names is tried."""

    connector = DestinationDeeplake
    connector_name = "destination-deeplake"  # else it would be the name of the folder of this checkout
