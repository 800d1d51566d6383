"""Worker processes that walk beside the process with the model, so that walks use all cores."""
