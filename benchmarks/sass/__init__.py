"""Executes the machine code of a GPU kernel (SASS) in software: results, instructions, cycles.

README.md says what the counts prove and what they do not.
"""
