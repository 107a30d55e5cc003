"""Training as a module, for torchrun: `torchrun --nproc-per-node=2 -m fcnet_core.learning CONFIG [OPTIONS]`.

CONFIG and the options are those of `fcnet train`; without torchrun it is the same program.
"""

import os
import sys

from fcnet_core.cli import main

if __name__ == "__main__":
    config = ["--config"] if sys.argv[1:] and not sys.argv[1].startswith("-") else []
    try:
        code = main(["train", *config, *sys.argv[1:]])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    # All is written. Threads of PyTorch's exchange may outlive Python's end, which aborts a run that has succeeded.
    os._exit(code)
