//! End-to-end tests: one binary, so that linking is quick; one module per subject.

// Commands.
mod agent;
mod anchor;
mod append;
mod checkpoint;
mod create;
mod edit;
mod entity;
mod event;
mod fork;
mod guards;
mod index;
mod migrate;
mod noop;
mod random;
mod range;
mod read;
mod ttl;
mod window;

// Robustness.
mod bad_input;
mod cluster;
mod concurrency;
mod corrupt_payload;
mod golden;
mod peers;
mod persistence;
mod publish;
mod real_data;
mod replication;
mod scenarios;

// Integration with the server.
mod grammar;
mod harness;
mod keys;
mod settings;
mod surroundings;
mod table;
