"""Executes the machine code of a GPU kernel (SASS) in software and counts its instructions.

README.md says what the counts prove and what they do not.
"""
