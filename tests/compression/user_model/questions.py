"""What the tests of a user's own model ask."""

from collections.abc import Callable

from advisor.engine._compress.question import CompressionQuestion

Asked = Callable[..., CompressionQuestion]

CLASSES = ("ant", "bee", "cat", "dog")
