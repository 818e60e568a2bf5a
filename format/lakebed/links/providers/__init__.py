"""Where credentials that go by a name come from: one module per provider. What opens stores with them is elsewhere.

Whatever a provider finds leaves it as a dictionary whose secrets are covered; no plain text of theirs stays in a frame
that raises.
"""
