package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const mit = "MIT License\n\nCopyright (c) 2020 A\n\nPermission is hereby granted, free of charge,\nto any person obtaining a copy\n"

func TestNoticesHaveEachTextOnce(t *testing.T) {
	t.Parallel()
	text, err := notices([]part{{"b.example/y v2.0.0", []string{mit + "\r\n"}}, {"a.example/x v1.0.0", []string{mit, "NOTICE of x"}}})
	require.NoError(t, err)
	require.Contains(t, text, "a.example/x v1.0.0: MIT\nb.example/y v2.0.0: MIT\n")
	require.Contains(t, text, "\na.example/x v1.0.0\nb.example/y v2.0.0\n\nMIT License\n")
	require.Contains(t, text, "\na.example/x v1.0.0\n\nNOTICE of x\n")
}

func TestNoticesRefuseLicences(t *testing.T) {
	t.Parallel()
	const gpl = "GNU GENERAL PUBLIC LICENSE\nVersion 2, June 1991"
	for name, tt := range map[string]struct{ module, text, want string }{
		"copyleft":           {"a.example/x v1.0.0", gpl, "a.example/x v1.0.0: unsuitable: GNU GENERAL PUBLIC LICENSE"},
		"beside another":     {"a.example/x v1.0.0", mit + gpl, "unsuitable"},
		"of a library":       {"a.example/x v1.0.0", "GNU LESSER\nGENERAL PUBLIC LICENSE", "unsuitable"},
		"unknown":            {"a.example/x v1.0.0", "Do what you like.", "a.example/x v1.0.0: its licence is none that is known as suitable"},
		"no longer a choice": {"kernel.org/pub/linux/libs/security/libcap/psx v9.0.0", gpl, "psx v9.0.0: its licence"},
	} {
		_, err := notices([]part{{tt.module, []string{tt.text}}})
		require.ErrorContains(t, err, tt.want, name)
	}
}
