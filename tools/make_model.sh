#!/bin/sh
# Trains a policy from nothing, see docs/training.md: sh tools/make_model.sh ROBOT. Run it again to continue.
set -eu
robot=${1:?name a robot: make model ROBOT=aliengo}
out=runs/$robot.safetensors
mkdir -p runs

fcnet collect --config "config/collect/$robot.yaml" --out "data/$robot"
if [ ! -f "$out" ]; then
    resume=
    [ ! -f "runs/$robot.ckpt" ] || resume=--resume
    fcnet train --config config/train/imitation.yaml --data "data/$robot" --out "$out" $resume
fi
echo "$out is trained; measure it: fcnet evaluate --policy $out"
