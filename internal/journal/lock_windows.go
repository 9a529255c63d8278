package journal

import "os"

// nameLock locks a name by a locked file of that name, which exists while the
// lock is held. The system releases it when the process dies, however it dies.
type nameLock struct {
	f    *os.File
	at   namespace
	name string
}

func lockName(at namespace, name string) (*nameLock, error) {
	f, err := at.open(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return &nameLock{f: f, at: at, name: name}, nil
}

// Close releases the lock and removes its file. Windows refuses the removal if
// another process has opened the file already; then the file stays.
func (l *nameLock) Close() error {
	err := l.f.Close()
	_ = l.at.remove(l.name)
	return err
}
