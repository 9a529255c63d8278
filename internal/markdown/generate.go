//go:build ignore

// Generate writes languages.zip: the definitions of the languages that are
// highlighted, in chroma's XML. They are chroma's, whose licence is in
// languages.LICENSE. Its own package with them would bring all 280 languages, and
// read them whenever a program starts.
package main

import (
	"archive/zip"
	"bytes"
	"log"
	"os"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

var names = []string{
	"Bash", "Bash Session", "Batchfile", "C", "C#", "C++", "CMake", "CSS", "Clojure", "Dart", "Diff", "Docker",
	"Elixir", "Erlang", "Go", "GraphQL", "Groovy", "HCL", "HTML", "Haskell", "INI", "JSON", "Java", "JavaScript",
	"Julia", "Kotlin", "Lua", "Makefile", "Nginx configuration file", "Nix", "OCaml", "Objective-C", "PHP", "Perl",
	"PowerShell", "Protocol Buffer", "Python", "R", "Ruby", "Rust", "SCSS", "SQL", "Scala", "Swift", "TOML",
	"Terraform", "TypeScript", "VimL", "XML", "YAML", "Zig", "react",
}

func main() {
	log.SetFlags(0)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range names {
		lexer, ok := lexers.Get(name).(*chroma.RegexLexer)
		if !ok {
			log.Fatalf("%s: no lexer that can be written", name)
		}
		text, err := chroma.Marshal(simple(lexer))
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		file, err := w.Create(name + ".xml")
		if err != nil {
			log.Fatal(err)
		}
		if _, err := file.Write(text); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("languages.zip", archive.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// simple returns a lexer without what is not used, the rules that guess a language,
// and without what cannot be written: templates in the raw strings of Go.
func simple(lexer *chroma.RegexLexer) *chroma.RegexLexer {
	config := *lexer.Config()
	config.Analyse = nil
	rules := lexer.MustRules().Clone()
	for i, rule := range rules["root"] {
		if rule.Pattern == "(`)([^`]*)(`)" {
			rules["root"][i] = chroma.Rule{Pattern: "`[^`]*`", Type: chroma.LiteralString}
		}
	}
	return chroma.MustNewLexer(&config, func() chroma.Rules { return rules })
}
