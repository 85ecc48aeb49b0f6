use super::sample::{CREATED, filled, id, report_row};
use crate::base::Amount;
use crate::evolution::ComparisonRole;
use crate::store::RunReader;
use crate::trajectory::Boundary;

fn lines(reader: &RunReader, sql: &str) -> Vec<String> {
    let mut statement = reader.connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| {
        let cells: Vec<String> = (0..columns).map(|index| format!("{:?}", row.get::<_, rusqlite::types::Value>(index).unwrap())).collect();
        Ok(cells.join(" "))
    };
    statement.query_map([], read).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn elites_are_confirmed_holders_with_their_last_confirmation() {
    let elites = filled().await.reader().unwrap().elites().unwrap();
    // Harness 2 was confirmed but lost its niche to 3; 3 was confirmed twice.
    assert_eq!(elites.len(), 1);
    let elite = &elites[0];
    assert_eq!((elite.harness, elite.niche.as_str(), elite.step), (id(3), "shell/s0t1", 7));
    assert_eq!((elite.validate_rate, elite.validate_low, elite.validate_high), (0.75, 0.5, 0.875));
    assert_eq!((elite.episodes, elite.mean_steps, elite.mean_tokens), (8, 2.5, 330.0));
}

#[tokio::test]
async fn the_view_elites_has_the_promised_columns() {
    let store = filled().await;
    let reader = store.reader().unwrap();
    let sql = "SELECT job_type, niche, validate_rate, validate_low, validate_high, episodes, mean_steps, mean_tokens FROM elites";
    assert_eq!(
        lines(&reader, sql),
        [r#"Text("shell") Text("shell/s0t1") Real(0.75) Real(0.5) Real(0.875) Integer(8) Real(2.5) Real(330.0)"#]
    );
}

#[tokio::test]
async fn the_leaderboard_ranks_by_mean_score_and_never_by_sealed_tasks() {
    let board = filled().await.reader().unwrap().leaderboard().unwrap();
    let rows: Vec<_> = board.iter().map(|row| (row.split.as_str(), row.rank, row.harness, row.episodes)).collect();
    // Search means: 2: 1; 3: (1 + 1/3) / 2 = 2/3; 0: 1/2; 1: 1/4. On validate 2 and 3 are equal: by id.
    let (first, second) = if id(2).to_string() < id(3).to_string() { (id(2), id(3)) } else { (id(3), id(2)) };
    assert_eq!(
        rows,
        [
            ("search", 1, id(2), 1),
            ("search", 2, id(3), 2),
            ("search", 3, id(0), 1),
            ("search", 4, id(1), 1),
            ("validate", 1, first, 1),
            ("validate", 2, second, 1)
        ]
    );
    assert!((board[1].mean_score - 2.0 / 3.0).abs() < 1e-12);
    assert!((board[1].solved_rate - 0.5).abs() < 1e-12);
}

#[tokio::test]
async fn the_lineage_path_leads_to_the_seed_along_first_parents() {
    let store = filled().await;
    let reader = store.reader().unwrap();
    let sql = format!("SELECT distance, ancestor_id, made_by, step FROM lineage_path WHERE harness_id = '{}'", id(3));
    let line = |distance: i64, number: u32, made_by: &str, step: i64| {
        format!("Integer({distance}) Text(\"{}\") Text(\"{made_by}\") Integer({step})", id(number))
    };
    assert_eq!(lines(&reader, &sql), [line(0, 3, "crossover", 5), line(1, 2, "rewrite", 2), line(2, 0, "seed", 0)]);
    let second = lines(&reader, "SELECT json_extract(diff, '$[0].before'), hypothesis FROM edge WHERE place = 1");
    assert_eq!(second, [r#"Text("You are agent 1.") Null"#]);
}

#[tokio::test]
async fn the_episode_summary_is_for_people() {
    let store = filled().await;
    let reader = store.reader().unwrap();
    let sql = "SELECT job_type, skill, split, outcome, score, ended, tokens, seconds, model, at FROM episode_summary WHERE id = 1";
    // 1767225600 s after the epoch is the start of 2026.
    let expected = r#"Text("shell") Text("count") Text("search") Text("faulted") Null Text("provider: 429") Integer(330) Real(1.5) Text("tiny") Text("2026-01-01 00:00:00")"#;
    assert_eq!(lines(&reader, sql), [expected]);
}

#[tokio::test]
async fn status_and_report_give_the_figures() {
    let store = filled().await;
    let reader = store.reader().unwrap();
    let status = reader.status().unwrap();
    assert_eq!((status.steps, status.refused, status.harnesses, status.niches, status.elites), (8, 1, 4, 1, 1));
    assert_eq!((status.scored, status.faults), (8, vec![(Boundary::Provider, 1)]));
    assert_eq!(status.spent, Amount { episodes: 8, tokens: 8000, micro_usd: 80 });
    assert_eq!(status.last_step_at, Some(CREATED));
    let expected = [
        report_row(ComparisonRole::Seed, id(0), 0.5),
        report_row(ComparisonRole::Baseline, id(0), 0.625),
        report_row(ComparisonRole::Elite, id(3), 0.75),
        report_row(ComparisonRole::OtherElite, id(2), 0.25),
    ];
    store.write_report(&[3, 2, 0, 1].map(|row: usize| expected[row].clone())).unwrap();
    assert_eq!(reader.report().unwrap(), expected);
    store.write_report(&expected[..1]).unwrap();
    assert_eq!(reader.report().unwrap(), expected[..1]);
}

#[tokio::test]
async fn only_counted_solved_unsealed_episodes_of_elites_are_exported() {
    let store = filled().await;
    // Solved by the elite, but no committed step counts it: it was in flight when the run stopped.
    super::sample::play(&store, id(3), &super::sample::task("shell", crate::task::Split::Search), 77, super::sample::scored(1.0)).await;
    let mut rows = store.reader().unwrap().export_rows().unwrap();
    rows.sort_by_key(|row| row.trajectory.seed);
    let seeds: Vec<(u64, &str)> = rows.iter().map(|row| (row.trajectory.seed, row.split.as_str())).collect();
    assert_eq!(seeds, [(1, "search"), (9, "validate")]);
    for row in &rows {
        assert_eq!(row.trajectory.harness, id(3));
        assert!(row.simulated);
        let path: Vec<_> = row.path.iter().map(|step| (step.harness, step.made_by.as_str())).collect();
        assert_eq!(path, [(id(0), "seed"), (id(2), "rewrite"), (id(3), "crossover")]);
    }
}
