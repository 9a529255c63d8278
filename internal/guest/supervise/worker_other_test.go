//go:build !linux

package supervise_test

func actAsWorker() {}
