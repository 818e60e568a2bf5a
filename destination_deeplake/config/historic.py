"""Fields of the connector of 2022, which some configurations still have, and their replacements.

They are refused, not ignored, because their author expects an effect.
"""

from collections.abc import Mapping

from destination_deeplake.config.values import Section

REPLACED: Mapping[str, str] = {
    "path": "write the place into destination_path",
    "token": "choose a method under credentials; no account is needed any more",
    "managed_creds": "write the name into creds_key of the columns that hold links, or choose the method named under "
    "credentials",
    "overwrite_tensor_definitions": "write htype, dtype and compression into the columns of streams",
    "neglected_tensors": "write the columns into exclude of streams",
    "custom_transform": "the connector runs no code of its users any more; transform the columns at the source, or the "
    "dataset afterwards",
}


def refuse_historic(form: Section) -> None:
    """Refuse a field of the old connector.

    Raises
    ------
    ConfigError
        If the form has one; the message names the replacement, and no value.
    """
    for key, instead in REPLACED.items():
        if key in form:
            raise form.error(key, f"is a field of the connector of 2022; remove it, and {instead}.")
