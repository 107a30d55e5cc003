# The few commands of the workspace; `make help` lists them. All of them set up what they need first.

ENTER = . ./env.sh
.DEFAULT_GOAL = help
.PHONY: help setup demo test lint bench bench-ros bench-wire bench-replay bench-monitor bench-discovery fault-matrix \
	attack reaction soak clean model wheels

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-16s %s\n' "$$name" "$$text"; done
	@echo "Variables: PYTHON=python3.12 (3.11 to 3.13); TORCH_INDEX=https://download.pytorch.org/whl/cpu"
	@echo "(make test without CUDA); afterwards '. env.sh' gives a shell with ros2, colcon and fcnet."

setup: ## what a robot or simulator needs: .venv and the built packages
	@sh tools/setup.sh

demo: ## the Aliengo walks a course in MuJoCo
	@$(ENTER) && ros2 launch fcnet_controller aliengo.launch.py demo:=true

test: ## every test, two files at a time
	@sh tools/setup.sh test
	@$(ENTER) && python tools/check_packages.py && python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

lint: ## ruff and mypy
	@sh tools/setup.sh test
	@.venv/bin/python -m ruff check . && .venv/bin/python -m mypy

bench: ## one step of the policy in every form, beside eager PyTorch
	@sh tools/setup.sh test
	@$(ENTER) && fcnet bench step

bench-ros: ## the control loop through ROS, for a minute
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/closed_loop.py

bench-wire: ## the wire's codec, then a bridge at 500 Hz: idle, and beside 8 busy processes; 25 minutes
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/wire_codec.py && python benchmarks/bridge/wire_loop.py && \
		python benchmarks/bridge/wire_loop.py --busy 8 --params-file config/bridges/real_time.yaml && \
		python benchmarks/bridge/wire_loop.py --busy 8

bench-replay: ## offline replay against real time, and what the whole command costs
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/replay_speed.py

bench-monitor: ## the monitor's share of a core, and the snapshots that a browser draws; needs chromium and its driver
	@sh tools/setup.sh test
	@$(ENTER) && python benchmarks/monitor_load.py

bench-discovery: ## how soon the suite's programs find each other, in 100 starts; 8 minutes
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/discovery.py

fault-matrix: ## every fault in every mode against real processes, into docs/, or of one ROBOT; half an hour each
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/fault_matrix.py $(if $(ROBOT),--robot $(ROBOT),--markdown docs/fault_matrix.md)

attack: ## ten minutes of attacks on a walking ROBOT's programs, from outside
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/attacker.py $(if $(ROBOT),--robot $(ROBOT))

reaction: ## from a killed or stopped process to damping on the wire, 50 trials each; half an hour
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/reaction_time.py $(if $(ROBOT),--robot $(ROBOT))

soak: ## an hour of walking with recording and monitor, into docs/
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/soak.py $(if $(ROBOT),--robot $(ROBOT)) \
		--params-file config/bridges/real_time.yaml --markdown docs/soak.md

wheels: ## wheels of the Python libraries into dist/, for pip, see docs/python.md
	@sh tools/setup.sh
	@rm -rf dist src/*/build && .venv/bin/python -m pip wheel -q --no-deps --wheel-dir dist \
		./src/fcnet_core ./src/fcnet_replay ./src/quadruped_sim && rm -rf src/*/build && ls dist

clean: ## removes everything that setup and the builds made
	rm -rf .venv build dist install log .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +

model: ## trains a policy as the A1's was: ROBOT=aliengo or a1, about an hour on two cores
	@sh tools/setup.sh test
	@$(ENTER) && sh tools/make_model.sh $(ROBOT)
