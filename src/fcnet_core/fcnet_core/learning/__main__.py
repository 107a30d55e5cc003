"""Training as a module, for torchrun: `torchrun --nproc-per-node=2 -m fcnet_core.learning CONFIG [OPTIONS]`.

CONFIG and the options are those of `fcnet train`; without torchrun it is the same program.
"""

import sys

from fcnet_core.cli import main

if __name__ == "__main__":
    config = ["--config"] if sys.argv[1:] and not sys.argv[1].startswith("-") else []
    sys.exit(main(["train", *config, *sys.argv[1:]]))
