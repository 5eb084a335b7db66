//! Annotations and documentation.

use super::Unreadable;
use crate::proto::config::{self, expression::Value, structured_annotation::Body};
use ir::p4info::{AnnotationBody, Annotations, Documentation, Expression, StructuredAnnotation};

pub(super) fn structured(annotations: &Annotations) -> Vec<config::StructuredAnnotation> {
    let message = |annotation: &StructuredAnnotation| config::StructuredAnnotation {
        name: annotation.name.clone(),
        body: match &annotation.body {
            AnnotationBody::Empty => None,
            AnnotationBody::Expressions(list) => Some(Body::ExpressionList(config::ExpressionList {
                expressions: list.iter().map(expression).collect(),
            })),
            AnnotationBody::Pairs(pairs) => {
                Some(Body::KvPairList(config::KeyValuePairList { kv_pairs: pairs.iter().map(pair).collect() }))
            }
        },
        source_location: None,
    };
    annotations.structured.iter().map(message).collect()
}

fn pair((key, value): &(String, Expression)) -> config::KeyValuePair {
    config::KeyValuePair { key: key.clone(), value: Some(expression(value)) }
}

fn expression(value: &Expression) -> config::Expression {
    let value = match value {
        Expression::String(text) => Value::StringValue(text.clone()),
        Expression::Int(value) => Value::Int64Value(*value),
        Expression::Bool(value) => Value::BoolValue(*value),
    };
    config::Expression { value: Some(value) }
}

/// Documentation that says nothing is not there.
pub(super) fn documentation(doc: &Documentation) -> Option<config::Documentation> {
    let message = config::Documentation { brief: doc.brief.clone(), description: doc.description.clone() };
    (*doc != Documentation::default()).then_some(message)
}

pub(super) fn read(
    place: &str,
    plain: &[String],
    structured: &[config::StructuredAnnotation],
) -> Result<Annotations, Unreadable> {
    let structured =
        structured.iter().map(|annotation| read_structured(place, annotation)).collect::<Result<_, _>>()?;
    Ok(Annotations { plain: plain.to_vec(), structured })
}

fn read_structured(place: &str, message: &config::StructuredAnnotation) -> Result<StructuredAnnotation, Unreadable> {
    let body = match &message.body {
        None => AnnotationBody::Empty,
        Some(Body::ExpressionList(list)) => {
            let list = list.expressions.iter().map(|value| read_expression(place, Some(value)));
            AnnotationBody::Expressions(list.collect::<Result<_, _>>()?)
        }
        Some(Body::KvPairList(list)) => {
            let pairs = list.kv_pairs.iter();
            let pairs = pairs.map(|pair| Ok((pair.key.clone(), read_expression(place, pair.value.as_ref())?)));
            AnnotationBody::Pairs(pairs.collect::<Result<_, _>>()?)
        }
    };
    Ok(StructuredAnnotation { name: message.name.clone(), body })
}

fn read_expression(place: &str, message: Option<&config::Expression>) -> Result<Expression, Unreadable> {
    Ok(match message.and_then(|message| message.value.as_ref()) {
        Some(Value::StringValue(text)) => Expression::String(text.clone()),
        Some(Value::Int64Value(value)) => Expression::Int(*value),
        Some(Value::BoolValue(value)) => Expression::Bool(*value),
        None => return Err(Unreadable::Missing { place: place.to_owned(), field: "structured_annotations.value" }),
    })
}

pub(super) fn read_documentation(doc: &Option<config::Documentation>) -> Documentation {
    doc.as_ref()
        .map(|doc| Documentation { brief: doc.brief.clone(), description: doc.description.clone() })
        .unwrap_or_default()
}
