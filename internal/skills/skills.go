// Package skills reads skills in the open Agent Skills format
// (https://agentskills.io/specification): a skill is a folder with a file
// SKILL.md, whose YAML front matter has its name and description, and whose
// Markdown body has instructions. Skills come from other people: everything in
// them may be hostile, and what is read of them is bounded.
package skills

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// Bounds of a skill, and of what is looked at for skills.
const (
	MaxFile          = 256 << 10 // bytes of SKILL.md that are read
	MaxFolders       = 200       // folders of one directory that are looked into
	MaxEntries       = 4000      // entries of one directory that are listed
	maxFrontMatter   = 16 << 10  // bytes
	maxName          = 64        // characters
	maxDescription   = 1024      // characters
	maxCompatibility = 500       // characters
)

// Skill is what is known of a skill from its front matter. Its texts are one
// line, without control characters.
type Skill struct {
	Name          string // of at most 64 lower-case letters, digits and hyphens
	Description   string // of at most 1024 characters
	Compatibility string // what the skill needs; mostly empty
}

// Problem is what is wrong with a SKILL.md.
type Problem struct {
	Line int // from 1; 0 for the whole file
	Text string
}

// at returns the problem of a file at a path, in words.
func (p Problem) at(path string) string {
	if p.Line == 0 {
		return path + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d: %s", path, p.Line, p.Text)
}

// ErrManyEntries is returned with the first folders of a directory that has too many
// entries.
var ErrManyEntries = fmt.Errorf("there are more than %d entries: skills in the others are left out", MaxEntries)

// errFrontMatter is the error of a file without front matter.
var errFrontMatter = errors.New(`it does not begin with front matter between two lines "---"`)

// Parse reads a SKILL.md of a folder. The problems say what is wrong; ok is false
// if there is no skill for all that.
func Parse(folder string, data []byte) (s Skill, problems []Problem, ok bool) {
	front, _, err := split(data)
	if err != nil {
		return s, []Problem{{Text: err.Error()}}, false
	}
	fields, err := decode(front)
	if err != nil {
		return s, []Problem{*asProblem(err)}, false
	}
	note := func(line int, format string, args ...any) {
		problems = append(problems, Problem{line, fmt.Sprintf(format, args...)})
	}
	name, description := fields["name"], fields["description"]
	s.Name, s.Description = name.text, oneLine(description.text, maxDescription)
	s.Compatibility = oneLine(fields["compatibility"].text, maxCompatibility)
	switch {
	case s.Description == "":
		note(description.line, "description is missing")
		return s, problems, false
	case utf8.RuneCountInString(description.text) > maxDescription:
		note(description.line, "description has more than %d characters: the rest is left out", maxDescription)
	}
	switch {
	case !IsName(s.Name) && !IsName(folder):
		note(name.line, "name is not 1 to %d lower-case letters, digits and single hyphens, and neither is that of the folder", maxName)
		return s, problems, false
	case !IsName(s.Name):
		note(name.line, "name is not 1 to %d lower-case letters, digits and single hyphens: the skill is called %s, as its folder", maxName, folder)
		s.Name = folder
	case s.Name != folder:
		note(name.line, "name is %s, but the folder is called otherwise", s.Name)
	}
	return s, problems, true
}

var namePattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// IsName reports whether a skill can have a name.
func IsName(name string) bool { return len(name) <= maxName && namePattern.MatchString(name) }

// Body returns the instructions in a SKILL.md, without what no reader of the file
// sees.
func Body(data []byte) (string, error) {
	_, body, err := split(data)
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(body, 0) >= 0 {
		return "", errors.New("it is no text")
	}
	return strings.TrimSpace(escape.Readable(string(body))), nil
}

// split returns the front matter and the body of a SKILL.md.
func split(data []byte) (front, body []byte, err error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, " \t\r") != "---" {
		return nil, nil, errFrontMatter
	}
	at := 0
	for line := range strings.Lines(rest) {
		if at > maxFrontMatter {
			return nil, nil, fmt.Errorf("the front matter has more than %d KiB", maxFrontMatter>>10)
		}
		if strings.TrimRight(line, " \t\r\n") == "---" {
			return []byte(rest[:at]), []byte(rest[at+len(line):]), nil
		}
		at += len(line)
	}
	return nil, nil, errFrontMatter
}

// field is a text of the front matter, and where it stands.
type field struct {
	text string
	line int
}

// decode reads the texts of front matter. Front matter that is no YAML, mostly
// because a text with a colon is not quoted, is read once more with such texts
// quoted.
func decode(front []byte) (map[string]field, error) {
	root, err := parse(front)
	if err != nil {
		var again error
		if root, again = parse(quoteTexts(front)); again != nil {
			return nil, err
		}
	}
	fields := map[string]field{}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 || root.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("the front matter is no list of fields")
	}
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		// Aliases are not followed, so that a text cannot grow.
		if key, value := pairs[i], pairs[i+1]; key.Kind == yaml.ScalarNode && value.Kind == yaml.ScalarNode && value.Tag != "!!null" {
			fields[key.Value] = field{value.Value, value.Line + 1} // the first line is "---"
		}
	}
	return fields, nil
}

// parse is yaml.Unmarshal, whose panics are errors: the text is a stranger's.
func parse(front []byte) (root yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("the front matter cannot be read")
		}
	}()
	err = yaml.Unmarshal(front, &root)
	return root, err
}

// plainText matches a field whose text is written without quotes.
var plainText = regexp.MustCompile(`(?m)^([a-z-]+):[ \t]+([^\s"'|>{\[&*!#%@` + "`" + `][^\r\n]*)`)

func quoteTexts(front []byte) []byte {
	return plainText.ReplaceAllFunc(front, func(line []byte) []byte {
		m := plainText.FindSubmatch(line)
		return []byte(string(m[1]) + ": '" + strings.ReplaceAll(string(m[2]), "'", "''") + "'")
	})
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// asProblem finds the line in an error of YAML.
func asProblem(err error) *Problem {
	p := &Problem{Text: oneLine(strings.TrimPrefix(err.Error(), "yaml: "), 200)}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		fmt.Sscan(m[1], &p.Line)
		p.Line++ // the first line is "---"
		p.Text = oneLine(strings.TrimPrefix(err.Error(), m[0]), 200)
	}
	return p
}

// oneLine returns a text as one line of at most so many characters, without
// control characters or invisible ones.
func oneLine(text string, most int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range strings.ToValidUTF8(text, "") {
		if unicode.IsSpace(r) || !unicode.IsGraphic(r) {
			space = space || unicode.IsSpace(r) || unicode.IsControl(r)
			continue
		}
		if space && n > 0 {
			b.WriteByte(' ')
			n++
		}
		space = false
		if n >= most {
			break
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// Place is where skills are: a directory whose folders are skills.
type Place struct {
	Path string // as it is told in warnings
	// List returns the names of the folders, and Read the first bytes of the
	// SKILL.md of one. A directory or file that does not exist is an error that
	// matches fs.ErrNotExist.
	List func() ([]string, error)
	Read func(folder string, limit int) ([]byte, error)
}

// Found is a skill and where it is.
type Found struct {
	Skill
	Place  int // its place's index
	Folder string
}

// Find returns the skills of several places, sorted by name. Of those with the same
// name the first place's counts. The warnings say what was left out.
func Find(places []Place, most int) (all []Found, warnings []string) {
	for i, place := range places {
		found, w := place.find(i)
		warnings = append(warnings, w...)
		for _, f := range found {
			if at := slices.IndexFunc(all, func(o Found) bool { return o.Name == f.Name }); at >= 0 {
				warnings = append(warnings, fmt.Sprintf("the skill %s of %s hides the one of %s", f.Name, places[all[at].Place].Path, place.Path))
				continue
			}
			all = append(all, f)
		}
	}
	if len(all) > most {
		warnings = append(warnings, fmt.Sprintf("%d skills are more than the %d that a model can be told of: the rest is left out", len(all), most))
		all = all[:most]
	}
	slices.SortFunc(all, func(a, b Found) int { return strings.Compare(a.Name, b.Name) })
	return all, warnings
}

// mostWarnings is how many warnings one place can cause.
const mostWarnings = 10

func (p Place) find(index int) (found []Found, warnings []string) {
	folders, err := p.List()
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			warnings = append(warnings, fmt.Sprintf("skills of %s: %v", p.Path, err))
		}
		if !errors.Is(err, ErrManyEntries) {
			return nil, warnings
		}
	}
	slices.Sort(folders)
	if len(folders) > MaxFolders {
		warnings = append(warnings, fmt.Sprintf("%s has more than %d folders: skills in the others are left out", p.Path, MaxFolders))
		folders = folders[:MaxFolders]
	}
	for _, folder := range folders {
		data, err := p.Read(folder, MaxFile)
		path := oneLine(p.Path+"/"+folder+"/"+File, 300)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				warnings = append(warnings, fmt.Sprintf("%s: %v", path, err))
			}
			continue
		}
		s, problems, ok := Parse(folder, data)
		for _, problem := range problems {
			warnings = append(warnings, problem.at(path))
		}
		if ok {
			found = append(found, Found{Skill: s, Place: index, Folder: folder})
		}
	}
	if more := len(warnings) - mostWarnings; more > 0 {
		warnings = append(warnings[:mostWarnings], p.Path+": "+numeral.Count(more, "more problem"))
	}
	return found, warnings
}
