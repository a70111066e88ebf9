"""Running algorithms: runs, logs, checkpoints, evaluation, processes, CUDA graphs, presets."""
