//! A store creates, finds, renames and deletes sessions once, also where every third reply is lost.

use std::collections::BTreeSet;

use redis_session_client::{Connect, Create, IndexQuery, Limit, NewMessage, SessionAlias, SessionStore};
use redis_session_tests::{Cluster, Server};

use crate::lossy::Lossy;
use crate::places::{client, cluster_client, store};

fn alias(name: &str) -> SessionAlias {
    name.parse().expect("an alias")
}

/// On one server and in a cluster.
macro_rules! everywhere {
    ($check:ident) => {{
        let server = Server::start();
        $check(store(Lossy::new(client(&server)))).await;
        let cluster = Cluster::start(3);
        $check(store(Lossy::new(cluster_client(&cluster)))).await;
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_created_is_there_once() {
    async fn check<C: Connect>(store: SessionStore<C>) {
        let mut created = BTreeSet::new();
        for n in 0..30 {
            let session = store
                .create(Create::new().alias(format!("session {n}")))
                .await
                .expect("a session");
            created.insert(session.id());
        }
        let listed = store.list(IndexQuery::all()).await.expect("the directory");
        assert_eq!(listed.len(), 30);
        assert_eq!(
            listed.into_iter().map(|entry| entry.id).collect::<BTreeSet<_>>(),
            created
        );
    }
    everywhere!(check);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_open_or_create_under_one_alias_get_the_same_session() {
    async fn check<C: Connect>(store: SessionStore<C>) {
        let tasks = (0..50).map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                let session = store
                    .open_or_create_by_alias(&alias("ada"), Create::new().limit(Limit::MaxLen, 0))
                    .await;
                let session = session.expect("a session");
                session
                    .append(NewMessage::user(n.to_string()))
                    .await
                    .expect("an append");
                session.id()
            })
        });
        let mut ids = BTreeSet::new();
        for task in tasks.collect::<Vec<_>>() {
            ids.insert(task.await.expect("no panic"));
        }
        assert_eq!(ids.len(), 1, "{ids:?}");
        let session = store.open(ids.pop_first().expect("one")).await.expect("the session");
        assert_eq!(session.len().await.expect("a number"), 50);
        assert_eq!(store.list(IndexQuery::all()).await.expect("the directory").len(), 1);
        let opened = store
            .create(Create::new().alias("ada").open())
            .await
            .expect("the session that is there");
        assert_eq!((opened.id(), opened.key()), (session.id(), session.key()));
    }
    everywhere!(check);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_renamed_and_deleted() {
    async fn check<C: Connect>(store: SessionStore<C>) {
        for n in 0..10 {
            let id = store.create(Create::new().alias("ada")).await.expect("a session").id();
            let new = alias(&format!("ada {n}"));
            store.rename(id, &new).await.expect("renamed");
            assert_eq!(store.resolve_alias(&new).await.expect("a reply"), Some(id));
            assert_eq!(store.resolve_alias(&alias("ada")).await.expect("a reply"), None);
            assert!(store.delete(id).await.expect("deleted"));
            assert!(!store.delete(id).await.expect("it is gone"));
            assert_eq!(store.resolve_alias(&new).await.expect("a reply"), None);
        }
    }
    everywhere!(check);
}
