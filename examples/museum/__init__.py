"""A museum of applied and fine art, made up from word lists: who made what, where it hangs, who borrowed it."""
