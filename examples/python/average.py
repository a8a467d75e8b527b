"""Every rank gets the mean of all ranks' arrays: weft run -n 4 -- python average.py"""

import numpy as np
import weft

ctx = weft.init()
x = np.full(1000, float(ctx.rank))
print(f"rank {ctx.rank} of {ctx.size}: {ctx.allreduce(x)[0]}")
