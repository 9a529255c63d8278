package pygent

import (
	"context"

	"github.com/x/pygent/internal/journal"
)

// OpenHistoryOn opens a history on a simulated disk.
var OpenHistoryOn = openHistoryOn

// OpenFileStore opens the store below a history in a file.
func OpenFileStore(path string) (HistoryStore, error) {
	h := &History{}
	file, err := openHistoryFile(journal.System, path, h)
	return &fileStore{h, file, false}, err
}

// fileStore does for a historyFile what its history does.
type fileStore struct {
	h      *History
	file   *historyFile
	loaded bool
}

func (s *fileStore) Load(ctx context.Context) ([]HistoryEntry, error) {
	entries, err := s.file.Load(ctx)
	if !s.loaded {
		s.h.record(entries...)
		s.loaded = true
		return s.h.Entries(), err
	}
	return append([]HistoryEntry(nil), entries...), err
}

func (s *fileStore) Append(ctx context.Context, entries ...HistoryEntry) error {
	if s.h.closed {
		return ErrHistoryClosed
	}
	before := len(s.h.entries)
	for _, e := range entries {
		var err error
		if !e.isMark() {
			if e.Message, err = encodeForHistory(e.Message); err != nil {
				return err
			}
		}
		s.h.record(e)
	}
	return s.file.Append(ctx, s.h.entries[before:]...)
}

func (s *fileStore) SetSystem(ctx context.Context, system HistoryEntry) (err error) {
	if s.h.closed {
		return ErrHistoryClosed
	}
	if system.Message.Role != "" {
		if system.Message, err = encodeForHistory(system.Message); err != nil {
			return err
		}
	}
	if err = s.file.SetSystem(ctx, system); err == nil {
		s.h.replaceSystem(system)
	}
	return err
}

func (s *fileStore) Close() error {
	if s.h.closed {
		return nil
	}
	s.h.closed = true
	return s.file.close()
}
