-- Of the runs that both databases have: names, one label for all seeds and one for each; what text
-- is the same.
create temp table common as
    select a.run, a.scenario, a.model, a.method, a.seed, a.tokenizer,
        count(*) over (partition by a.scenario, a.model, a.method) as seeds
    from first.runs as a join second.runs as b on a.run = b.run;
-- Each method with all its seeds, and where there are several each run by itself.
create temp table labelled as
    select *, scenario || '/' || name || '/' || seed as label
    from (
        select run, scenario, model || '/' || method as name, seed, tokenizer from common
        union all
        select run, scenario, model || '/' || method || '/seed' || seed, 0, tokenizer
        from common where seeds > 1
    );
create temp table same_text as
    select a.tokenizer, a.source
    from first.corpora as a
    join second.corpora as b using (tokenizer, source, split, fingerprint)
    where a.split = 'validation';
insert into experiment values ('compare', 'first', null, '{}');
insert into methods values ('first', 0), ('second', 1);
insert into scenarios select distinct scenario, 0 from common;
insert into domains select scenario, domain, min(position), min(target) from first.domains
    group by all;
