"""The GPU suite behind `benchmarks/gpu_suite.sh`: parts that each end within their time limit."""
