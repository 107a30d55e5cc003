# The few commands of the workspace; `make help` lists them. All of them set up what they need first.

ENTER = . ./env.sh
.DEFAULT_GOAL = help
.PHONY: help setup demo tasks test lint docs test-kernels test-scale bench bench-ros bench-wire bench-replay fault-matrix \
	attack soak model wheels clean

help:
	@awk -F ': *## *' '/^## / { printf "\n%s\n", substr($$0, 4) } \
		/^[a-z-]+: *## / { printf "  make %-17s%s\n", $$1, $$2 }' Makefile
	@printf '\nVariables\n'
	@printf '  %-22s%s\n' PYTHON=python3.12 'the Python to set up with, 3.11 to 3.13'
	@printf '  %-22s%s\n' TORCH_INDEX=URL 'such as https://download.pytorch.org/whl/cpu: make test without CUDA'
	@printf '  %-22s%s\n' ROBOT=a1 'of fault-matrix, attack, soak and model'
	@printf '\nAfterwards `. env.sh` gives a shell with ros2, colcon and fcnet.\n'

## Run

setup: ## what a robot or simulator needs: .venv and the built packages
	@sh tools/setup.sh

demo: ## the Aliengo walks a course in MuJoCo
	@$(ENTER) && ros2 launch fcnet_controller aliengo.launch.py demo:=true

tasks: ## the ten tasks of docs/first_hour.md, one after the other, each with its time
	@sh tools/setup.sh test
	@$(ENTER) && python tools/first_hour.py

## Check

test: ## every test, three files at a time
	@sh tools/setup.sh test
	@$(ENTER) && python tools/check_packages.py && python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-kernels: ## the training kernels for GPUs, without one by Triton's interpreter (Triton has 640 MB); two minutes
	@sh tools/setup.sh test
	@.venv/bin/python -m pip install -q -r requirements/kernels.txt
	@$(ENTER) && export TRITON_INTERPRET=$$(python -c "import torch; print(int(not torch.cuda.is_available()))") && \
		python -m pytest src/fcnet_core/test/policies/test_sliding_filter.py

test-scale: ## training by torchrun in two processes; collection on a Ray cluster of two nodes; three minutes
	@sh tools/setup.sh test
	@$(ENTER) && python -m pytest -k "test_processes or cluster" src/fcnet_core/test/learning/test_processes.py \
		src/quadruped_sim/test/collection/test_collect_verb.py

lint: ## ruff, mypy, and words to avoid in text
	@sh tools/setup.sh test
	@.venv/bin/python -m ruff check . && .venv/bin/python -m mypy && .venv/bin/python tools/check_words.py

## Measure

bench: ## duration of one policy step in every runtime
	@sh tools/setup.sh test
	@$(ENTER) && fcnet bench step

bench-ros: ## the control loop through ROS, for a minute
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/closed_loop.py

bench-wire: ## a bridge at 500 Hz: idle, and with 8 busy processes; 25 minutes
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/wire_loop.py && \
		python benchmarks/bridge/wire_loop.py --busy 8 --params-file config/bridges/real_time.yaml && \
		python benchmarks/bridge/wire_loop.py --busy 8

bench-replay: ## offline replay against real time
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/replay_speed.py

fault-matrix: ## every fault in every mode against real processes, into docs/, or of one ROBOT; half an hour each
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/fault_matrix.py $(if $(ROBOT),--robot $(ROBOT),--markdown docs/fault_matrix.md)

attack: ## ten minutes of attacks on a walking ROBOT's programs, from outside
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/attacker.py $(if $(ROBOT),--robot $(ROBOT))

soak: ## an hour of walking with recording and monitor
	@sh tools/setup.sh
	@$(ENTER) && python benchmarks/bridge/soak.py $(if $(ROBOT),--robot $(ROBOT)) \
		--params-file config/bridges/real_time.yaml

## Make

model: ## trains a policy as the A1's was: ROBOT=aliengo or a1, about an hour on two cores
	@sh tools/setup.sh test
	@$(ENTER) && sh tools/make_model.sh $(ROBOT)

docs: ## the documentation site into build/docs, from docs/ and the docstrings; a broken link fails it
	@sh tools/setup.sh docs
	@$(ENTER) && python -m sphinx -q -W --keep-going -c docs -b html . build/docs && echo build/docs/index.html

wheels: ## wheels of the Python libraries into dist/, for pip, see docs/python.md
	@sh tools/setup.sh
	@rm -rf dist src/*/build && .venv/bin/python -m pip wheel -q --no-deps --wheel-dir dist \
		./src/fcnet_core ./src/fcnet_replay ./src/quadruped_sim && rm -rf src/*/build && ls dist

clean: ## removes everything that setup and the builds made
	rm -rf .venv build dist install log .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +
