"""Microsoft Presidio's recognizers, with a blank pipeline of spaCy: nothing is downloaded.

What needs a trained model (names, places, organisations) is not recognised; what Presidio finds by pattern, checksum
and context word is. An optional extra, imported when first used.
"""

from functools import partial
from importlib import import_module
from threading import Lock
from typing import Annotated, Any, Final

from pydantic import Field

from app.outside.threads import in_thread
from app.policy.guardrails.contract import Found, Judgement, Passed, Position, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.guardrails.texts import texts_of
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec, Text
from app.workspace.specs.others import GuardrailSpec


class PresidioConfig(Spec):
    language: Annotated[
        str, Field(pattern=r"^[a-z]{2,3}$", description="Language of the recognizers and their context words.")
    ] = "en"
    entities: Annotated[
        tuple[Text, ...], Field(description="Entities to look for, such as CREDIT_CARD; all if none is given.")
    ] = ()
    min_score: Annotated[float, Field(ge=0, le=1, description="Least score of a result that counts.")] = 0.4


class PresidioJudge:
    def __init__(self, config: PresidioConfig) -> None:
        self._config = config
        self._engine = _engine(config.language)
        self._pipeline = self._engine.nlp_engine.nlp[config.language]
        self._one_at_a_time = Lock()
        known = set(self._engine.get_supported_entities(config.language))
        unknown = sorted(set(config.entities) - known)
        if unknown:
            raise ValueError(f"Presidio does not know {', '.join(unknown)}")
        self._positions(_FIRST_TEXT)  # what is loaded at the first use is loaded now, and not in the time of a run

    async def judge(self, subject: Subject) -> Judgement:
        found = await in_thread(partial(self._positions, subject.content), "guardrail-presidio")
        return Found(tuple(found)) if found else Passed()

    def _positions(self, content: Any) -> list[Position]:
        config = self._config
        entities = list(config.entities) or None
        # The pipeline would keep every word that it has ever seen; in a zone it forgets them, which only one thread at
        # a time may use.
        with self._one_at_a_time, self._pipeline.memory_zone():
            return [
                Position(path, one.start, one.end, one.entity_type.lower())
                for path, text in texts_of(content)
                if text
                for one in self._engine.analyze(
                    text, config.language, entities=entities, score_threshold=config.min_score
                )
            ]


_FIRST_TEXT: Final = "4111 1111 1111 1111, somebody@example.com"


def _engine(language: str) -> Any:
    # By name: types of an optional extra are not there to be checked.
    domains: Any = import_module("tldextract.tldextract")
    # It would load a list of domains from the internet; the one that it ships is used instead, by the whole process.
    domains.TLD_EXTRACTOR = domains.TLDExtract(suffix_list_urls=(), cache_dir=None)
    analyzer: Any = import_module("presidio_analyzer")
    engines: Any = import_module("presidio_analyzer.nlp_engine")
    configuration = engines.NerModelConfiguration(labels_to_ignore=["O"])
    models = [{"lang_code": language, "model_name": "blank"}]
    pipeline = engines.SpacyNlpEngine(models=models, ner_model_configuration=configuration)
    # It only splits text into words; set by hand, it is not loaded, so nothing is downloaded.
    pipeline.nlp = {language: import_module("spacy").blank(language)}
    registry = analyzer.RecognizerRegistry(supported_languages=[language])
    registry.load_predefined_recognizers(languages=[language])
    return analyzer.AnalyzerEngine(registry=registry, nlp_engine=pipeline, supported_languages=[language])


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    return PresidioJudge(config_of(declared, PresidioConfig))


KIND: Final = GuardrailKind(
    name="presidio", config=PresidioConfig, make=make, extra="presidio", module="presidio_analyzer"
)
