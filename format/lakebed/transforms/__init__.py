"""Transforms: functions that make rows of a dataset from the items of an input, on threads, processes or a cluster.

A transform can be resumed. `writing` encodes the rows, `session` adopts the parts, and `dataset` has the objects that
functions receive.
"""
