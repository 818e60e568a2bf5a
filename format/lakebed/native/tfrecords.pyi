from typing import Any

import numpy as np
from numpy.typing import NDArray

def masked_crc32c(data: Any) -> int: ...
def record_starts(data: Any, step: int) -> tuple[NDArray[np.int64], int, int]: ...
