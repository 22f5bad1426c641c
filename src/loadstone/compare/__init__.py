"""Runs side by side: reads result files of loadstone and of other tools, and says which differences are more than chance."""
