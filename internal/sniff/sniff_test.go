package sniff_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sniff"
)

func TestOf(t *testing.T) {
	for data, want := range map[string]string{
		"\x7fELF\x02\x01":                      "an ELF program or library",
		"\x1f\x8b\x08\x00":                     "gzip data",
		"\xff\xfe\x00\x00":                     "text in UTF-32LE",
		"\xff\xfea\x00":                        "text in UTF-16LE",
		"RIFF\x00\x00\x00\x00WEBP":             "a WebP image",
		strings.Repeat("\x00", 257) + "ustar ": "a tar archive",
		strings.Repeat("\x00", 257):            "",
		"package main\n":                       "",
		"":                                     "",
	} {
		require.Equal(t, want, sniff.Of(data).Name)
	}
	require.NotEmpty(t, sniff.Of("%PDF-1.7").Look)
}
