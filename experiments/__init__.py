"""The paper's experiments, repeated with what this project offers beside what the paper has.

`python -m experiments` writes figures (PNG) and numbers (CSV) to `experiments/out/`; docs/experiments.md explains them.
Everything here is released under replace-one unless it says otherwise, with noise from the operating system.
"""
