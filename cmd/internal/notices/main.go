// Command notices writes the licences of what the released programs contain: the modules
// that pygent, pygent-ui and the guest link on any of the systems for which they are
// released, Go's own library, and the files of others that we embed. It fails if it does not
// know a licence as suitable.
//
//	go run ./cmd/internal/notices         # writes THIRD_PARTY_NOTICES.txt
//	go run ./cmd/internal/notices -check  # fails if that is out of date
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	file    = "THIRD_PARTY_NOTICES.txt"
	refresh = "go run ./cmd/internal/notices"
)

// programs are the packages that are released, by the systems for which they are built.
var programs = map[string][]string{
	"./cmd/pygent":               {"linux", "darwin", "windows"},
	"./cmd/pygent-ui":            {"linux", "darwin", "windows"},
	"./internal/guest/cmd/guest": {"linux"},
}

// embedded are the files of others in our tree, and their licences.
var embedded = map[string]string{"internal/markdown/languages.zip": "internal/markdown/languages.LICENSE"}

// choice is the part of a licence file that we use, where it lets us choose.
type choice struct{ from, until string }

var choices = map[string]choice{
	"kernel.org/pub/linux/libs/security/libcap/psx": {"BSD 3-clause:\n", "\n-------------------------------------------------------------------------\nGPL v2.0:"},
}

// part is something that the programs contain.
type part struct {
	name  string   // of a module, with its version
	texts []string // its licences and notices
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("notices: ")
	check := flag.Bool("check", false, "compare with "+file+", which is written otherwise")
	flag.Parse()
	if err := run(*check); err != nil {
		log.Fatal(err)
	}
}

func run(check bool) error {
	parts, err := contents()
	if err != nil {
		return err
	}
	text, err := notices(parts)
	if err != nil {
		return err
	}
	if !check {
		return os.WriteFile(file, []byte(text), 0o644)
	}
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if string(old) != text {
		return fmt.Errorf("%s is out of date: %s writes it", file, refresh)
	}
	return nil
}

// contents lists what the programs contain.
func contents() ([]part, error) {
	modules, err := linked()
	if err != nil {
		return nil, err
	}
	root, err := command("go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	modules["Go"] = map[string]bool{strings.TrimSpace(root): true}
	var parts []part
	for name, dirs := range modules {
		texts, err := licences(name, slices.Sorted(maps.Keys(dirs)))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{name, texts})
	}
	for name, licence := range embedded {
		text, err := os.ReadFile(licence)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{name, []string{string(text)}})
	}
	return parts, nil
}

// linked returns the modules that the programs link: by name and version, the directories
// from those of their linked packages up to their own.
func linked() (map[string]map[string]bool, error) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{"\t"}}{{.Dir}}{{"\t"}}{{$.Dir}}{{end}}{{end}}`
	found := map[string]map[string]bool{}
	for program, systems := range programs {
		for _, system := range systems {
			for _, arch := range []string{"amd64", "arm64"} {
				list, err := command("env", "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0", "go", "list", "-deps", "-f", format, program)
				if err != nil {
					return nil, err
				}
				for line := range strings.Lines(list) {
					fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
					if found[fields[0]] == nil {
						found[fields[0]] = map[string]bool{fields[1]: true}
					}
					for dir := fields[2]; dir != fields[1]; dir = filepath.Dir(dir) {
						found[fields[0]][dir] = true
					}
				}
			}
		}
	}
	return found, nil
}

// isLicence matches the names of files with a licence, or with what a licence wants to be
// passed on.
var isLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-.](md|txt|mit|apache|bsd))?$`)

// licences reads the licences and notices in the directories of a module.
func licences(module string, dirs []string) ([]string, error) {
	var texts []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !isLicence.MatchString(e.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			texts = append(texts, string(text))
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s: %w: no licence", module, fs.ErrNotExist)
	}
	return texts, nil
}

// suitable are the licences that we can comply with by passing their texts on, each with
// the words by which it is known.
var suitable = []struct{ name, words string }{
	{"Apache-2.0", `Apache License,? Version 2\.0`},
	{"MPL-2.0", `Mozilla Public License,? version 2\.0`},
	{"MIT", `Permission is hereby granted, free of charge, to any person obtaining a copy`},
	{"ISC", `Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee is hereby granted`},
	{"BSD-3-Clause", `Redistribution and use in source and binary forms.*(Neither the name|The name of any author)`},
	{"BSD-2-Clause", `Redistribution and use in source and binary forms`},
}

// unsuitable are words of licences that ask for more.
var unsuitable = regexp.MustCompile(`GNU (AFFERO |LESSER |LIBRARY )?GENERAL PUBLIC LICENSE|Server Side Public License|Business Source License|Commons Clause|Creative Commons`)

// kinds returns the names of the licences in a text.
func kinds(text string) ([]string, error) {
	words := strings.Join(strings.Fields(text), " ")
	if found := unsuitable.FindString(words); found != "" {
		return nil, fmt.Errorf("unsuitable: %s", found)
	}
	var found []string
	for _, s := range suitable {
		isTwo := s.name == "BSD-2-Clause" && slices.Contains(found, "BSD-3-Clause")
		if !isTwo && regexp.MustCompile("(?i)"+s.words).MatchString(words) {
			found = append(found, s.name)
		}
	}
	return found, nil
}

// notices writes the licences of parts: a list, and each text once, with whom it is for.
func notices(parts []part) (string, error) {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	var list strings.Builder
	holders := map[string][]string{} // by text
	var order []string
	var wrong []error
	for _, p := range parts {
		var names []string
		path, _, _ := strings.Cut(p.name, " ")
		for _, text := range p.texts {
			if c, ok := choices[path]; ok {
				_, text, _ = strings.Cut(text, c.from)
				text, _, _ = strings.Cut(text, c.until)
			}
			known, err := kinds(text)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", p.name, err))
			}
			names = append(names, known...)
			text = tidy(text)
			if holders[text] == nil {
				order = append(order, text)
			}
			holders[text] = append(holders[text], p.name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		if len(names) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: its licence is none that is known as suitable", p.name))
		}
		fmt.Fprintf(&list, "%s: %s\n", p.name, strings.Join(names, " AND "))
	}
	var all strings.Builder
	fmt.Fprintf(&all, header, list.String())
	for _, text := range order {
		fmt.Fprintf(&all, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(holders[text], "\n"), text)
	}
	return all.String(), errors.Join(wrong...)
}

var header = fmt.Sprintf(`pygent contains software of others. This file lists it, and then has its licences and
notices. "go mod download MODULE@VERSION" fetches the source of a module.
%s writes it.

%%s`, refresh)

// tidy is a text without what editors and systems change.
func tidy(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		lines = append(lines, strings.TrimRight(line, " \t\r\n"))
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
