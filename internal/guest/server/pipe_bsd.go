//go:build unix && !linux

package server

const bytesWaiting = 0x4004667f // FIONREAD of sys/filio.h
