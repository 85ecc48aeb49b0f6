-- The database of a run, version 1.
--
-- Ids are 32 hexadecimal digits. Times are milliseconds since the Unix epoch. Money is in millionths of a US dollar.
-- JSON columns hold canonical JSON (sorted keys). `step.record` is the truth from which a run is resumed; the tables harness, edge,
-- niche, niche_history and elite follow from it and are written in the same transaction. `episode` also holds what was played for
-- steps that were never committed: it is a memo of what has been paid for.
--
-- For people: the views elites, leaderboard, lineage_path, episode_summary.

-- One row: what the run is.
CREATE TABLE meta (
    id                INTEGER PRIMARY KEY CHECK (id = 1),
    format            TEXT    NOT NULL,               -- 'harness-evo/run/1'
    experiment        TEXT    NOT NULL,               -- the experiment, resolved (JSON): all a resumed run needs beside its tasks
    seed              INTEGER NOT NULL,
    model_name        TEXT    NOT NULL,
    model_fingerprint TEXT    NOT NULL,
    simulated         INTEGER NOT NULL CHECK (simulated IN (0, 1)),  -- 1: scores say nothing about a real model
    created_at        INTEGER NOT NULL
) STRICT;

-- The models episodes were played with.
CREATE TABLE model (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,                 -- all that changes its replies
    name        TEXT NOT NULL
) STRICT;

CREATE TABLE task (
    id       TEXT PRIMARY KEY,
    job_type TEXT NOT NULL,
    skill    TEXT NOT NULL,
    split    TEXT NOT NULL CHECK (split IN ('search', 'validate', 'sealed')),
    body     TEXT NOT NULL                            -- JSON
) STRICT, WITHOUT ROWID;

-- Committed steps, numbered from 0 without gaps.
CREATE TABLE step (
    step                INTEGER PRIMARY KEY,
    kind                TEXT    NOT NULL CHECK (kind IN ('seed', 'child', 'confirm')),
    operator            TEXT,                         -- of a child
    job_type            TEXT,                         -- of a child or a confirmation
    harness_id          TEXT,                         -- born, or confirmed; NULL when refused
    refused             TEXT,                         -- why no child came of it
    overhead_tokens     INTEGER NOT NULL,             -- of the step's own requests, without its episodes
    overhead_micro_usd  INTEGER NOT NULL,
    spent_episodes      INTEGER NOT NULL,             -- of the whole run, after this step
    spent_tokens        INTEGER NOT NULL,
    spent_micro_usd     INTEGER NOT NULL,
    committed_at        INTEGER NOT NULL,
    record              BLOB    NOT NULL              -- the whole record: zstd over JSON
) STRICT;

-- Harnesses in the order of their birth.
CREATE TABLE harness (
    ordinal  INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    step     INTEGER NOT NULL REFERENCES step (step),
    template TEXT,                                    -- of a seed
    depth    INTEGER NOT NULL,                        -- edges from a seed along first parents
    genome   TEXT    NOT NULL                         -- JSON
) STRICT;

-- From child to parent.
CREATE TABLE edge (
    child             TEXT    NOT NULL REFERENCES harness (id),
    place             INTEGER NOT NULL,               -- 0: first parent, with which the child is compared; 1: second parent
    parent            TEXT    NOT NULL REFERENCES harness (id),
    operator          TEXT    NOT NULL,
    diff              TEXT    NOT NULL,               -- JSON: the genes that differ between parent and child
    hypothesis        TEXT,                           -- JSON: what the operator expected (first parent only)
    judged_difference REAL,                           -- what happened: mean paired difference child minus parent
    judged_low        REAL,                           -- its 95 % interval
    judged_high       REAL,
    judged_pairs      INTEGER,
    PRIMARY KEY (child, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_parent ON edge (parent);

-- Every change of a niche's holder.
CREATE TABLE niche_history (
    id          INTEGER PRIMARY KEY,
    step        INTEGER NOT NULL REFERENCES step (step),
    niche       TEXT    NOT NULL,                     -- job type / bins, for example 'shell/s0t1'
    harness_id  TEXT    NOT NULL REFERENCES harness (id),
    previous_id TEXT,
    mean_score  REAL    NOT NULL,                     -- on the search split
    episodes    INTEGER NOT NULL
) STRICT;

-- Who holds each niche now.
CREATE TABLE niche (
    niche      TEXT PRIMARY KEY,
    job_type   TEXT    NOT NULL,
    steps_bin  INTEGER NOT NULL,
    tokens_bin INTEGER NOT NULL,
    harness_id TEXT    NOT NULL REFERENCES harness (id),
    step       INTEGER NOT NULL REFERENCES step (step),
    mean_score REAL    NOT NULL,                      -- on the search split
    episodes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Confirmations on the validate split.
CREATE TABLE elite (
    niche          TEXT    NOT NULL,
    harness_id     TEXT    NOT NULL REFERENCES harness (id),
    step           INTEGER NOT NULL REFERENCES step (step),
    rate           REAL    NOT NULL,                  -- solved share
    low            REAL    NOT NULL,
    high           REAL    NOT NULL,
    episodes       INTEGER NOT NULL,
    mean_steps     REAL    NOT NULL,
    mean_tokens    REAL    NOT NULL,
    mean_micro_usd REAL    NOT NULL,
    PRIMARY KEY (niche, harness_id, step)
) STRICT, WITHOUT ROWID;

-- Trajectories by the BLAKE3 hash of their canonical JSON. `body` is zstd over that JSON; NULL: it lies in blobs/.
CREATE TABLE trajectory (
    id   INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    body BLOB
) STRICT;

-- Every attempt at an episode. `harness_id` has no foreign key: episodes come before the step that commits their harness.
CREATE TABLE episode (
    id                INTEGER PRIMARY KEY,
    harness_id        TEXT    NOT NULL,
    task_id           TEXT    NOT NULL,
    seed              INTEGER NOT NULL,
    model_id          INTEGER NOT NULL REFERENCES model (id),
    split             TEXT    NOT NULL CHECK (split IN ('search', 'validate', 'sealed')),
    attempt           INTEGER NOT NULL,               -- from 0
    outcome           TEXT    NOT NULL CHECK (outcome IN ('scored', 'faulted')),
    repeated          INTEGER NOT NULL CHECK (repeated IN (0, 1)),  -- 1: the same episode was scored before; never counted
    score             REAL,                           -- 0 to 1; NULL for a fault
    passed            INTEGER CHECK (passed IN (0, 1)),
    ending            TEXT,                           -- what ended the agent's turn
    boundary          TEXT,                           -- where it faulted
    fault             TEXT,
    steps             INTEGER NOT NULL,               -- model replies
    tokens            INTEGER NOT NULL,
    prompt_tokens     INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    micro_usd         INTEGER,                        -- NULL for a fault: the scored attempt counts it as lost
    lost_tokens       INTEGER,                        -- of faulted attempts before a scored one
    lost_micro_usd    INTEGER,
    shell_calls       INTEGER,
    gui_calls         INTEGER,
    total_ms          INTEGER NOT NULL,
    model_ms          INTEGER NOT NULL,
    tools_ms          INTEGER NOT NULL,
    sandbox_ms        INTEGER NOT NULL,
    check_ms          INTEGER NOT NULL,
    trajectory_id     INTEGER NOT NULL REFERENCES trajectory (id),
    created_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX episode_key ON episode (harness_id, task_id, seed, model_id);

-- The final table of the run.
CREATE TABLE report (
    job_type       TEXT    NOT NULL,
    split          TEXT    NOT NULL CHECK (split IN ('search', 'validate', 'sealed')),
    role           TEXT    NOT NULL CHECK (role IN ('seed', 'elite', 'other_elite', 'baseline')),
    label          TEXT    NOT NULL, -- the job type that crowned an elite; the template of a seed and a baseline
    harness_id     TEXT    NOT NULL,
    rate           REAL    NOT NULL,
    low            REAL    NOT NULL,
    high           REAL    NOT NULL,
    episodes       INTEGER NOT NULL,
    best_of        INTEGER NOT NULL, -- runs the row is the best of
    gain           REAL,             -- paired difference to the seed
    gain_low       REAL,
    gain_high      REAL,
    mean_steps     REAL    NOT NULL,
    mean_tokens    REAL    NOT NULL,
    mean_micro_usd REAL    NOT NULL,
    PRIMARY KEY (job_type, split, role, label)
) STRICT, WITHOUT ROWID;

-- Holders of a niche that were confirmed on the validate split, with their last confirmation.
CREATE VIEW elites AS
SELECT niche.job_type, niche.niche, niche.harness_id,
       elite.rate AS validate_rate, elite.low AS validate_low, elite.high AS validate_high,
       elite.episodes, elite.mean_steps, elite.mean_tokens, elite.mean_micro_usd,
       niche.mean_score AS search_mean, elite.step
FROM niche
JOIN elite ON elite.niche = niche.niche AND elite.harness_id = niche.harness_id
WHERE elite.step = (SELECT max(later.step) FROM elite AS later
                    WHERE later.niche = elite.niche AND later.harness_id = elite.harness_id)
ORDER BY niche.job_type, elite.rate DESC, niche.niche;

-- Harnesses of committed steps by job type and split, best first. Sealed tasks are left out: nothing is ranked by them.
CREATE VIEW leaderboard AS
SELECT job_type, split,
       rank() OVER (PARTITION BY job_type, split ORDER BY mean_score DESC, solved_rate DESC, mean_tokens, harness_id) AS rank,
       harness_id, mean_score, solved_rate, episodes, mean_steps, mean_tokens, mean_micro_usd
FROM (
    SELECT task.job_type, episode.split, episode.harness_id,
           avg(episode.score) AS mean_score, avg(episode.passed) AS solved_rate, count(*) AS episodes,
           avg(episode.steps) AS mean_steps, avg(episode.tokens) AS mean_tokens, avg(episode.micro_usd) AS mean_micro_usd
    FROM episode
    JOIN task ON task.id = episode.task_id
    JOIN harness ON harness.id = episode.harness_id
    WHERE episode.outcome = 'scored' AND episode.repeated = 0 AND episode.split <> 'sealed'
    GROUP BY task.job_type, episode.split, episode.harness_id
)
ORDER BY job_type, split, rank;

-- The way from each harness up to its seed along first parents: distance 0 is the harness itself.
CREATE VIEW lineage_path AS
WITH RECURSIVE way (harness_id, distance, ancestor_id) AS (
    SELECT id, 0, id FROM harness
    UNION ALL
    SELECT way.harness_id, way.distance + 1, edge.parent
    FROM way JOIN edge ON edge.child = way.ancestor_id AND edge.place = 0
)
SELECT way.harness_id, way.distance, way.ancestor_id, harness.step,
       coalesce(edge.operator, 'seed') AS made_by, harness.template,
       edge.diff, edge.hypothesis, edge.judged_difference
FROM way
JOIN harness ON harness.id = way.ancestor_id
LEFT JOIN edge ON edge.child = way.ancestor_id AND edge.place = 0
ORDER BY way.harness_id, way.distance;

-- One line per attempt at an episode.
CREATE VIEW episode_summary AS
SELECT episode.id, episode.harness_id, task.job_type, task.skill, episode.split, episode.task_id, episode.seed, episode.attempt,
       episode.outcome, episode.score, episode.passed,
       coalesce(episode.ending, episode.boundary || ': ' || episode.fault) AS ended,
       episode.steps, episode.tokens, episode.micro_usd, episode.total_ms / 1000.0 AS seconds,
       model.name AS model, datetime(episode.created_at / 1000, 'unixepoch') AS at
FROM episode
JOIN model ON model.id = episode.model_id
LEFT JOIN task ON task.id = episode.task_id
ORDER BY episode.id;
