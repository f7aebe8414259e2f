"""Turn a model card into artefacts and their figures: the stage graph, the walker that runs it, and the jobs."""
