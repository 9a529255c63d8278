package main

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/x/pygent/chat"
	_ "modernc.org/sqlite"
)

// Store keeps conversations in a table of an SQLite database, an entry a row. It
// is a [chat.HistoryStore].
type Store struct {
	db           *sql.DB
	conversation string
}

// open opens a database. Each of its connections waits when another program
// writes, so this is in the name and not in a statement, which only one of them
// would run.
func open(path string) (*sql.DB, error) {
	return sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
}

// NewStore returns the store of one conversation, and makes the table if there
// is none.
func NewStore(ctx context.Context, db *sql.DB, conversation string) (*Store, error) {
	_, err := db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS entries (
			conversation TEXT NOT NULL,
			seq          INTEGER NOT NULL,
			entry        TEXT NOT NULL,
			PRIMARY KEY (conversation, seq)
		)`)
	return &Store{db, conversation}, err
}

// Load returns the entries of the conversation.
func (s *Store) Load(ctx context.Context) ([]chat.HistoryEntry, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT entry FROM entries WHERE conversation = ? ORDER BY seq`, s.conversation)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var entries []chat.HistoryEntry
	for rows.Next() {
		var data []byte
		if err := rows.Scan(&data); err != nil {
			return nil, err
		}
		var e chat.HistoryEntry
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, rows.Err()
}

// Append adds entries in one transaction. A second program that writes the same
// conversation fails at the primary key.
func (s *Store) Append(ctx context.Context, entries ...chat.HistoryEntry) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, e := range entries {
		if err := s.put(ctx, tx, `INSERT INTO entries VALUES (?, ?, ?)`, e); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// SetSystem replaces the entry 0, or removes it.
func (s *Store) SetSystem(ctx context.Context, system chat.HistoryEntry) error {
	if system.Message.Role == "" {
		_, err := s.db.ExecContext(ctx, `DELETE FROM entries WHERE conversation = ? AND seq = 0`, s.conversation)
		return err
	}
	return s.put(ctx, s.db, `INSERT OR REPLACE INTO entries VALUES (?, ?, ?)`, system)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Store) put(ctx context.Context, db execer, statement string, e chat.HistoryEntry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, s.conversation, e.Seq, string(data))
	return err
}
