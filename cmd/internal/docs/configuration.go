package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/x/pygent/cmd/internal/cli"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/settings"
)

// onlyVariables are the variables of settings that no file can have.
var onlyVariables = map[string]string{
	"PYGENT_TASK_PERSONAS_JSON": "The personas to whom the agent delegates, as a JSON list of objects with `name` and `description`.",
}

// configurationPage has the settings, as examples/sample_config.toml describes them.
func configurationPage(dir string) (string, error) {
	known := map[string]settings.Setting{}
	var variables [][]string
	for _, s := range bridge.Settings() {
		if s.Key != "" {
			known[s.Key] = s
			continue
		}
		about, ok := onlyVariables[s.Env]
		if !ok {
			return "", fmt.Errorf("onlyVariables does not describe %s", s.Env)
		}
		variables = append(variables, []string{code(s.Env), about})
	}
	sections, err := readSample(filepath.Join(dir, "examples", "sample_config.toml"), known)
	if err != nil {
		return "", err
	}
	p := newPage("Configuration", `Every setting, with its key in a file, its environment variable, and what it means.

pygent reads settings from these places; the first one that has a setting wins:

1. options of a Go program, or flags of the command
2. `+"`-e NAME=VALUE`"+`
3. environment variables
4. the files of `+"`--config FILE`"+`
5. `+"`./pygent.toml`"+`
6. `+"`~/.pygent.toml`"+`

A `+"`pygent.toml`"+` in the working directory is untrusted: it may come from a repository that you cloned. It can set only what the tables below mark as *project*, and can lower limits but not raise them. *Continued* says whether `+"`--continue` and `--resume`"+` take the value from the session that they continue. An unknown key is an error. `+"`pygent config`"+` shows what is set, and where.`)
	described := map[string]bool{}
	for _, section := range sections {
		p.settings(section, known)
		for _, setting := range section.settings {
			described[setting.key] = true
		}
	}
	for key := range known {
		if !described[key] {
			return "", fmt.Errorf("examples/sample_config.toml does not describe %s", key)
		}
	}
	p.section(2, "Variables without a key")
	p.table([]string{"Variable", "Meaning"}, variables)
	return p.String(), nil
}

// settings writes a section of the sample.
func (p *page) settings(s sampleSection, known map[string]settings.Setting) {
	p.section(2, s.title)
	if s.about != "" {
		p.WriteString(s.about + "\n\n")
	}
	var rows [][]string
	for _, setting := range s.settings {
		its, who := known[setting.key], "you"
		switch {
		case its.Project:
			who = "project"
		case its.IsLimit():
			who = "project, lower only"
		}
		rows = append(rows, []string{code(setting.key), setting.about, code(setting.example), code(its.Env), who, yesNo(cli.Continues(setting.key))})
	}
	p.table([]string{"Key", "Meaning", "Default or example", "Variable", "Set by", "Continued"}, rows)
}

// sampleSection is a part of the sample, with the settings in it.
type sampleSection struct {
	title, about string
	settings     []sampleSetting
}

// sampleSetting is a setting as the sample has it.
type sampleSetting struct{ key, example, about string }

// Lines of the sample. A setting, or the table that one is, may be commented out.
var (
	sampleTitle   = regexp.MustCompile(`^# --- (.*?) -+$`)
	sampleTable   = regexp.MustCompile(`^(?:# )?(\[\[?([\w.]+)(?:\."[^"]*")?\]\]?)(?:\s+# (.*))?$`)
	sampleValue   = regexp.MustCompile(`^(?:# )?([\w.]+) = (.*?)(?:\s+# (.*))?$`)
	sampleComment = regexp.MustCompile(`^# (.*)$`)
	// sampleNames are what a comment ends with: who may set it, and its variables.
	sampleNames = regexp.MustCompile(`(?:^|[;.] ?)(?:project; )?(?:PYGENT|OPENAI)_[A-Z_]+\b.*$`)
)

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// readSample reads the sections of the sample. What is in a table that is a setting itself
// is part of its example.
func readSample(path string, known map[string]settings.Setting) ([]sampleSection, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var sections []sampleSection
	table, whole := "", false // whole says that the table is a setting
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title := sampleTitle.FindStringSubmatch(line); title != nil {
			sections, table, whole = append(sections, sampleSection{title: title[1]}), "", false
			continue
		}
		if len(sections) == 0 {
			continue // the introduction
		}
		s := &sections[len(sections)-1]
		if m := sampleTable.FindStringSubmatch(line); m != nil {
			_, whole = known[m[2]]
			if table = m[2]; whole && !slices.ContainsFunc(s.settings, func(o sampleSetting) bool { return o.key == table }) {
				s.settings = append(s.settings, sampleSetting{table, m[1], aboutSetting(m[3])})
			}
			continue
		}
		if m := sampleValue.FindStringSubmatch(line); m != nil {
			key := m[1]
			if table != "" {
				key = table + "." + key
			}
			if _, is := known[key]; is {
				s.settings = append(s.settings, sampleSetting{key, m[2], aboutSetting(m[3])})
				continue
			}
			if whole {
				continue
			}
			if !strings.HasPrefix(line, "#") {
				return nil, fmt.Errorf("%s: %s is no setting", path, key)
			}
		}
		if m := sampleComment.FindStringSubmatch(line); m != nil && len(s.settings) == 0 && table == "" {
			s.about = strings.TrimSpace(s.about + " " + m[1])
		}
	}
	for i := range sections {
		sections[i].about = aboutSetting(sections[i].about)
	}
	return sections, nil
}

// aboutSetting returns a comment of the sample without what the table says in columns of
// its own.
func aboutSetting(comment string) string {
	return strings.TrimPrefix(sampleNames.ReplaceAllString(comment, ""), "project; ")
}
