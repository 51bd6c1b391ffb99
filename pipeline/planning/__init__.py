"""From a configuration to every run and job that it asks for, before any of them starts.

strict_yaml                 a file               -> its values, without YAML's surprises
configuration, schema       dataclasses          -> the JSON Schema of a configuration
schema, cross_checks        a configuration      -> what is wrong with it, in words
methods, method_catalogue   a mixing rule         -> its class; what it needs; what it cannot train
stage_settings              sections             -> the explicit settings of one run
normal_form                 a configuration      -> the same with its defaults filled in
dependencies, paper_roles   runs                 -> those that they stand on; the paper's parts
planner, plan               a configuration      -> the plan: all that it asks for, by name
manifest_places             a plan               -> the places of manifests, a database's inputs
stages                      a stage's name       -> its function, the code that it depends on
output_root                 a plan               -> its folder, settings files
plan_hints                  a plan               -> names that nothing uses
outdated_work               a plan, manifests    -> what the plan would make otherwise, as times
verify                      results              -> what is changed, missing or foreign
run_estimates               a run's settings     -> memory, hours, disk of its jobs
job_estimates, cost         a plan               -> what every job takes: `pike plan`
requested_resources         a plan, a profile    -> memory, time, GPUs that jobs ask for
workflow_profile, slurm_executor  a profile           -> what it sets for the jobs, judged
rule_inputs                 a plan               -> what the workflow's rules read
workflow_jobs               what Snakemake asks  -> what jobs read, take and find
snakemake_internals         Snakemake            -> what it has no public function for
"""
