"""From a configuration to every run and job that it asks for, before any of them starts.

schema, references   a configuration            -> what is wrong with it, in words
rules                the rules' source          -> their names, settings and sentences
expansion            sections                   -> the explicit settings of one run
proxies, roles       runs                       -> those that they stand on; the paper's parts
runs                 a configuration            -> the plan: everything that it asks for, by name
stages               a stage's name             -> its function, the code that it depends on
root                 a plan                     -> its output root and settings files
jobs, resources      a plan                     -> every job with what it takes
accelerators, bill   jobs, kinds of devices     -> what `pike plan` prints
"""
