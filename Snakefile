"""Where Snakemake looks first: the workflow and its default target are in workflow/Snakefile."""

workflow.include("workflow/Snakefile", overwrite_default_target=True)
