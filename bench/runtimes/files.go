package main

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"os"
)

// writeNoise makes a file that does not compress.
func writeNoise(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), size)
	return errors.Join(err, f.Close())
}

// sameFile compares two files.
func sameFile(a, b string) error {
	x, err := os.Open(a)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := os.Open(b)
	if err != nil {
		return err
	}
	defer y.Close()
	return sameBytes(bufio.NewReaderSize(x, 1<<20), bufio.NewReaderSize(y, 1<<20))
}

func sameBytes(x, y io.Reader) error {
	p, q := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(x, p)
		m, other := io.ReadFull(y, q)
		if string(p[:n]) != string(q[:m]) {
			return errors.New("the copy differs")
		}
		if ended(err) && ended(other) {
			return nil
		}
		if err = errors.Join(err, other); err != nil {
			return err
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
