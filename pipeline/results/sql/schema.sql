-- The base tables. Records of runs keep the columns of their Parquet files, with the run's name
-- in front. Losses are in nats, times in seconds, accuracies in percent.

-- oracle: the method that trains on the best static mixture found; regrets are against it.
create table experiment (name text, baseline text, oracle text, config json);

-- Positions give every table and figure one order of scenarios, methods and domains. target: the weight
-- of a domain in the mean loss, not divided by their sum.
create table scenarios (scenario text primary key, position integer);
create table methods (method text primary key, position integer);
create table domains (scenario text, domain text, position integer, target double default 1);

-- The database of a whole experiment has those that only serve others, too; the report's has not.
create table runs (
    run text primary key, scenario text, model text, method text, seed integer, steps bigint,
    tokens bigint, parameters bigint, settings json, code_commit text, code_fingerprint text,
    data_fingerprint text, device text, wall_seconds double, tokens_per_second double,
    resumes integer, tokenizer text, weights_sha256 text, mixture text
);

-- model_flops_utilisation: share of the device's peak (Chowdhery et al. 2022, Appendix B), null where
-- no peak is known. memory_bytes: the most held so far, by tensors on a GPU, else by the process.
create table steps (
    run text, step bigint, tokens bigint, loss double, learning_rate double,
    gradient_norm double, seconds double, tokens_per_second double,
    model_flops_utilisation double, memory_bytes bigint
);

create table domain_losses (run text, step bigint, domain text, loss double);

create table weights (run text, step bigint, domain text, weight double, count bigint);

-- squared_norm is that of the rows' mean gradient, which noise inflates by variance / rows;
-- squared_norm_unbiased is that minus variance / rows and can come out negative.
-- noise_scale, in rows: the batch size at which noise and signal are equal (McCandlish et al.).
create table gradient_statistics (
    run text, step bigint, domain text, squared_norm double, squared_norm_unbiased double,
    variance double, loss double, rows bigint, seconds double,
    noise_scale double generated always as (
        case when squared_norm_unbiased > 0 then variance / squared_norm_unbiased end
    )
);

-- How much each domain counted in the update: the weight of its mean loss, or the coefficient of
-- its gradient; only of methods that choose it.
create table coefficients (run text, step bigint, domain text, coefficient double);

-- What a run warned of. kind: effective-domains (the sampling weights collapsed; domain is null),
-- no-rows (a domain was in no batch for a while), epochs (a domain's text was repeated too often),
-- nan-signal (a gradient statistic of a domain that had rows was no finite number), never-moved (up
-- to the step the method mixed as its initial weights do; of a whole run: at its last step), worse (a
-- domain's held-out loss rose).
create table alarms (run text, step bigint, kind text, domain text, message text);

-- stderr is that of nll, clustered by document.
create table perplexities (
    run text, step bigint, domain text, nll double, perplexity double, bits_per_byte double,
    tokens bigint, stderr double
);

-- Sums over each validation document: every mean, error and paired difference follows from them.
create table documents (
    run text, step bigint, domain text, document text, nll double, tokens bigint, bytes bigint
);

create table accuracies (
    run text, step bigint, task text, shots integer, formulation text, metric text,
    value double, stderr double, examples bigint
);

-- One row per multiple-choice item; the lists have one entry per candidate, or none where a task
-- has no use for them. sum_log_likelihood stands behind the question, unconditional without it;
-- characters and bytes are without the space in front; shots_used: demonstrations that fitted.
create table choices (
    run text, step bigint, task text, shots integer, formulation text, item text, document text,
    gold integer, pick integer, sum_log_likelihood double[], unconditional double[],
    tokens integer[], characters integer[], bytes integer[], shots_used integer
);

-- Made when the database is built, from the above: each method's last accuracy minus that of
-- `against` (the baseline; the oracle where there is one; methods that a claim compares, claimed_pairs) on
-- the same items and seeds, in percentage points; task `mean` is the mean over mean_tasks. low and high:
-- 95% interval. p: two-sided, paired. p_holm: p corrected over all methods and tasks of the same scenario,
-- model, shots, formulation and metric, those on fewer than least_seeds() seeds among themselves; null for pairs
-- of claims alone. other: the accuracy of `against`. discordance: percent of items on which the two differ. seed_sd: standard
-- deviation of the seeds' differences. design_effect: by how much items that share documents
-- inflate the variance. docs/decisions.md, 0019, says which test and why.
create table accuracy_tests (
    scenario text, model text, task text, shots integer, formulation text, metric text,
    method text, against text, difference double, stderr double, low double, high double,
    p double, p_holm double, seeds integer, examples bigint, documents bigint,
    discordance double, seed_sd double, design_effect double, other double, seed_stderr double,
    item_stderr double, degrees double, effective double
);

-- Made when the database is built, from documents: each method's final loss and perplexity minus those of
-- `against` (as in accuracy_tests), over the seeds and documents of both; without a domain the mean over domains
-- by the scenario's target, without a scenario the mean of that over all scenarios, which weigh alike. A document
-- is a text, in all domains and scenarios. stderr^2 = seed_sd^2 / seeds + document_stderr^2; low and high: 95%
-- interval, each part with its own Student's t (comparison/mean_difference.py). degrees: those of the documents.
-- effective: documents of one length that would tell as much (comparison/document_sizes.py), of the domain with the fewest. p: null over
-- few seeds or documents. p_holm: corrected over all methods of the scenario and model against one reference, for
-- means and for domains by themselves; null for pairs of claims alone and for methods that serve others.
create table loss_tests (
    scenario text, model text, method text, against text, domain text, seeds bigint,
    seeds_better bigint, effective double, other_perplexity double,
    nll_difference double, nll_stderr double, nll_low double, nll_high double, nll_seed_sd double,
    nll_document_stderr double, nll_degrees double, nll_p double, nll_p_holm double,
    perplexity_difference double, perplexity_stderr double, perplexity_low double,
    perplexity_high double, perplexity_seed_sd double, perplexity_document_stderr double,
    perplexity_degrees double, perplexity_p double, perplexity_p_holm double,
    spread_difference double, spread_stderr double, spread_low double, spread_high double,
    spread_seed_sd double, spread_document_stderr double, spread_degrees double, spread_p double,
    spread_p_holm double
);

-- Made when the database is built, from printed_pairs and measured_pairs, which say what it holds: two
-- methods beside each other, the paper's and ours, by its names.
create table pairs (
    quantity text, side text, scenario text, model text, shots integer, method text, against text,
    cell text, value double, low double, high double, stderr double, seed_stderr double,
    item_stderr double, seeds bigint, degrees double, effective double, our_scenario text
);

-- Made when the database is built: the test of every claim that has numbers of ours (claims.sql); p is null where
-- seeds are too few. deciding: seeds of each number that would decide it (claim_tests.py).
create table claim_tests (claim text primary key, p double, p_holm double, deciding bigint);

-- Made when the database is built, from scenario_differences (board_tests.py): each method's target loss minus
-- another's, mean over the scenarios of a board of means over seeds. stderr over scenarios; half: of the 95% interval;
-- p: two-sided, by Student's t; p_holm: corrected over the methods of one board and model against one other method.
-- seeds: the fewest of a scenario. worst: the largest difference.
create table boards (
    board text, model text, method text, against text, scenarios bigint, difference double,
    stderr double, half double, p double, p_holm double, seeds bigint, worst double, worst_scenario text
);

-- Made when the database is built: how many tokens each method trains on until it is where the baseline
-- ends (`target`: nats, or percent), and stays there. quantity is loss (mean over domains) or accuracy
-- (mean over mean_tasks); ratio is the baseline's tokens over the method's, low and high its 95%
-- interval: by those of the curve less the target; p: that of this difference where the baseline ends,
-- null over few seeds or documents, and of a method that trains on and loses the lead. Null: not reached, or not kept.
create table speedups (
    scenario text, model text, quantity text, shots integer, formulation text, metric text,
    method text, against text, target double, tokens double, baseline_tokens double,
    ratio double, low double, high double, p double, seeds integer
);

create table similarities (
    run text, step bigint, domain_a text, domain_b text, cosine double, ratio double,
    cosine_corrected double
);

create table timings (run text, phase text, seconds double, share double);

-- Validation text under the simplest models: uniform over the vocabulary, unigram counts of the
-- training text, and the source's own entropy (floor_nats) where it is known. entropy_nats is the
-- entropy of a token drawn from the split, pieces how many of the vocabulary's occur in it.
create table corpora (
    tokenizer text, source text, split text, documents bigint, tokens bigint, bytes bigint,
    vocabulary bigint, uniform_nats double, unigram_nats double, floor_nats double,
    revision text, licence text, fingerprint text, characters bigint, unknown_tokens bigint,
    pieces bigint, entropy_nats double
);

-- Documents of at least so many tokens, and fewer than twice as many.
create table document_lengths (
    tokenizer text, source text, split text, at_least bigint, documents bigint
);

-- The published numbers, as printed; decimals: digits behind the point.
create table paper (
    paper_table text, scenario text, model text, params text, method text, metric text, task text,
    shots integer, value double, bold boolean, underlined boolean, decimals integer
);

-- What the paper states outside its tables of results, word by word in `quote`. quantity says how it
-- can be checked: quote and gain (against the tables), weight, part and whole, factor and product,
-- and what is said at several places: size, setting, count, words, training time. value is as
-- printed, in units of scale (1e9: billions), null: 1.
create table paper_statements (
    place text, quantity text, subject text, scenario text, params text, method text,
    against text, metric text, task text, shots integer, value text, unit text, scale double,
    quote text, decimals integer
);

-- The quantitative sentences of the paper: each says that a number lies between lower and upper (null:
-- no bound), and some print it (published, with so many decimals). at_scale: only the paper's own
-- sizes can test it. reading: what is taken for what the sentence leaves open.
create table paper_claims (
    claim text primary key, position integer, place text, quote text, statement text,
    published text, unit text, lower double, upper double, at_scale boolean, reading text,
    decimals integer
);

-- The methods that a claim compares (claimed_pairs): patterns of the paper's names; null matches all, in
-- `against` all that are no PiKE and train on more than one domain.
create table paper_patterns (
    claim text, quantity text, method text, against text, scenario text, model text, shots integer
);

-- How many items the paper's tasks have, where that is said, and whether the paper itself says it.
create table paper_items (task text, items integer, stated boolean, source text);

-- Where the paper contradicts itself, both values beside each other (audit); tests recompute them from the
-- tables above.
create table paper_contradictions (
    place text, kind text, statement text, stated text, recomputed text, low double, high double,
    comment text
);

-- The paper's places where its own mathematics fails: the value of a quantity as the paper has it, and
-- as it is, on an instance that the comment names. verdict: slip is a misprint on the way, the result
-- of the passage stands; not comparable are two numbers that measure different things.
create table paper_errata (
    place text, statement text, stated double, recomputed double, verdict text, comment text
);

-- The checks of the theory, where the stage `theory` made them. Example 1 (Figure 3), step by step:
-- share is that of task 1 in the next batch; loss is the expected one, by formula for static
-- mixtures, the simulated mean for the adaptive one. low and high: 95% interval of the simulation.
create table theory_example (
    setting text, mixture text, position integer, step bigint, share double, loss double,
    simulated double, low double, high double
);

-- The last loss of adaptive mixing beside that of the static mixture that is best in hindsight.
-- ahead: whether adaptive mixing is below it by more than its interval; null: neither is.
create table theory_example_settings (
    setting text, theta1 double, theta2 double, sigma1 double, sigma2 double, eta double, b bigint,
    steps bigint, best_share double, best_static double, adaptive double, low double, high double,
    ahead boolean
);

-- The loss after a step beside three versions of the bound on it: printed (with L), of_sum (with the
-- Lipschitz constant L_sum of the sum's gradient), plain (that without beta). before: the loss
-- before the step. applies: whether the theorem's condition holds. expected: exact, null where it
-- has no closed form.
create table theory_descent (
    problem text, point integer, mixture text, weights double[], eta double, b bigint, L double,
    L_sum double, conflict double, alignment double, beta double, gamma double, applies boolean,
    before double, printed double, of_sum double, plain double, expected double, simulated double,
    stderr double
);

-- Steps until gradients are small. target: max (each E|g_k|^2 <= delta) or sum (E|sum g_k|^2 <=
-- delta); step_size: that of the method's own theorem, or the best of its doublings.
create table theory_iterations (
    problem text, method text, target text, step_size text, eta double, delta double, b bigint,
    bound double, reached bigint, paths bigint
);

-- The names that the paper uses, in its order, as its tables write them.
create table paper_names (kind text, name text, position integer, label text);

-- What holds where settings are silent: of the training recipe, the rule pike, the section paper.
create table defaults (kind text, settings json);

-- The paper's tables of its set-up (3 to 7), cell by cell, as printed.
create table paper_setup (
    paper_table text, row_position integer, row_label text, column_position integer,
    column_label text, text text
);

-- Which of our names play the paper's. kind: scenario, model, method, or task (a domain, too).
create table published_names (kind text, ours text, published text);

-- What was made from what. path is relative to the results folder; sha256 is that of the file at
-- path when the database was built; facts are the manifest's further keys.
create table lineage (
    artifact text primary key, path text, sha256 text, produced_by text, inputs text[],
    settings json, code_fingerprint text, code_commit text, facts json
);
