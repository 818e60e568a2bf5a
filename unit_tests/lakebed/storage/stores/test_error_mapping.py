"""What a store or its client says becomes one line without a secret."""

from lakebed.storage.stores.error_mapping import FailedRequest


def test_nothing_is_quoted_of_credentials_that_the_client_can_not_read() -> None:
    error = ValueError(
        "The operation lacked valid authentication credentials for path External Azure credential provider: "
        "TypeError: failed to extract enum PyAzureCredential ('AccessKey hunter2"
    )
    assert FailedRequest(error).reason == "the client cannot read the credentials"
