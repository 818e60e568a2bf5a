"""A version in the making: schema, tensors and rows that no reader sees yet.

Publishing a draft is up to `lakebed.session`.
"""
